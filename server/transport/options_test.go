package transport_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// heardConn keeps what a server sends.
type heardConn struct {
	net.Conn

	mu    sync.Mutex
	heard bytes.Buffer // guarded by mu
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard.Write(b[:n])
	return n, err
}

// frames counts the whole frames of HTTP/2 that came, by type, without acknowledgements.
func (c *heardConn) frames() map[byte]int {
	const head, acknowledges = 9, 1
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[byte]int{}
	for rest := c.heard.Bytes(); len(rest) >= head; {
		length := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
		if rest[4]&acknowledges == 0 {
			count[rest[3]]++
		}
		rest = rest[min(head+length, len(rest)):]
	}
	return count
}

// TestNothingButAnswers: a small request is answered, and nothing else is sent for it: each frame costs the
// server as much as a small model.
func TestNothingButAnswers(t *testing.T) {
	h := servertest.New(t, server.Config{})
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- h.GRPC.Serve(listener) }()
	var heard *heardConn
	conn, err := grpc.NewClient("passthrough:///house", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := listener.DialContext(ctx)
			heard = &heardConn{Conn: c}
			return heard, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = conn.Close()
		h.GRPC.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	const calls = 3
	for range calls {
		if _, err := weftv1.NewPredictionServiceClient(conn).Predict(t.Context(), servertest.Observation("a")); err != nil {
			t.Fatal(err)
		}
	}
	const data, windowUpdate, ping = 0, 8, 6
	frames := heard.frames()
	if frames[data] != calls || frames[ping] != 0 || frames[windowUpdate] > 1 {
		t.Errorf("frames by type: %v, expected %d of data, no ping, and the window of the connection", frames, calls)
	}
}
