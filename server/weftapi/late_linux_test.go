package weftapi_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/servertest"
)

// slowly is a listener whose connections are read late.
type slowly struct {
	net.Listener

	by *atomic.Int64 // nanoseconds before each read
}

func (l slowly) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return lazy{c, l.by}, err
}

type lazy struct {
	net.Conn

	by *atomic.Int64
}

func (c lazy) NetConn() net.Conn { return c.Conn }

func (c lazy) Read(into []byte) (int, error) {
	<-time.After(time.Duration(c.by.Load()))
	return c.Conn.Read(into)
}

// TestLimitsCountFromArrival: what lies unread for a while has that much less time left.
func TestLimitsCountFromArrival(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds")
	}
	const lies, timeout = 300 * time.Millisecond, 2 * time.Second
	h := servertest.New(t, server.Config{})
	limits := make(chan time.Time, 1)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		limits <- call.Limit
		return servertest.RunPolicy(ctx, call)
	}
	var by atomic.Int64
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = h.GRPC.Serve(slowly{protect.New(protect.Config{}).Listen(l, 0), &by}) // it is stopped with the house
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		h.GRPC.Stop()
		<-served
	})
	client := weftv1.NewPredictionServiceClient(conn)
	stream, err := client.PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"unary": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := client.Predict(ctx, servertest.Observation("u"))
			return err
		},
		"stream": func() error {
			if err := stream.Send(&weftv1.PredictStreamRequest{
				Request: servertest.Observation("s"), Timeout: durationpb.New(timeout),
			}); err != nil {
				return err
			}
			_, err := stream.Recv()
			return err
		},
	} {
		// The first read after that was begun before. What comes next lies until the sleep before the next one is over.
		by.Store(int64(lies))
		const asked = 5 // the kernel notes times some time after it was asked to
		for i := range asked {
			sent := time.Now()
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			came, limit := time.Now(), <-limits
			if i == asked-1 && (came.Sub(sent) < lies/2 || limit.After(sent.Add(timeout+lies/2))) {
				t.Errorf("%s: answered after %v, with a limit %v after it was sent, of %v", name, came.Sub(sent),
					limit.Sub(sent), timeout)
			}
		}
		by.Store(0)
	}
}
