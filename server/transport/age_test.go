package transport_test

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

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
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(weftest.Patience))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(c, c)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if away, is := frame.(*http2.GoAwayFrame); is {
			if away.ErrCode != http2.ErrCodeNo {
				t.Errorf("it is asked to go with %v", away)
			}
			return
		}
	}
}
