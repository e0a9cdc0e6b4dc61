package transport_test

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/transport"
)

// TestMaxConnectionAge: a connection of that age is asked to go.
func TestMaxConnectionAge(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(transport.Options(1<<20, &tensor.Recycler{}),
		transport.MaxConnectionAge(10*time.Millisecond))...)
	defer s.Stop()
	go func() { _ = s.Serve(l) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Connect()
	for _, state := range []connectivity.State{connectivity.Ready, connectivity.Idle} {
		weftest.Until(t, "the connection is "+state.String(), func() bool {
			if now := c.GetState(); now != state {
				c.WaitForStateChange(t.Context(), now)
			}
			return c.GetState() == state
		})
	}
}
