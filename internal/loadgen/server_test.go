package loadgen

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// house serves the model policy on a loopback address.
func house(t *testing.T) (*servertest.House, string) {
	t.Helper()
	h := servertest.New(t, server.Config{})
	return h, weftest.Serve(t, h.GRPC)
}

func optionsFor(address string, change func(*Options)) *Options {
	o := &Options{
		Target: address, Warmup: config.Duration(20e6), Duration: config.Duration(200e6), Connections: 2,
		Stream: stream(func(s *Stream) { s.Callers = 4 }),
	}
	change(o)
	return o
}

func TestRealServer(t *testing.T) {
	h, address := house(t)
	calls := make(chan *catalog.Call, 1)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		select {
		case calls <- call:
		default:
		}
		return servertest.RunPolicy(ctx, call)
	}
	var out bytes.Buffer
	o := optionsFor(address, func(o *Options) {
		o.Rows, o.Label, o.Priority, o.ServerPID = 3, "stable", "sheddable", os.Getpid()
	})
	if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if c := <-calls; c.Rows != 3 || c.Priority != sharedsched.Sheddable {
		t.Errorf("a request of %d rows, priority %v; want 3, sheddable", c.Rows, c.Priority)
	}
	for _, want := range []string{
		"policy version 1, 4 callers, deadline 1000 ms, priority sheddable", "sent: OK ", "this program",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, out.String())
		}
	}
}
