package loadgen

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

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

// TestRealServer asks a server over both protocols.
func TestRealServer(t *testing.T) {
	for _, tt := range []struct {
		protocol Protocol
		priority Priority
		asked    sharedsched.Priority
		report   []string
		served   bool // the answers tell their way through the server
	}{
		{weft, "sheddable", sharedsched.Sheddable, []string{"deadline 1000 ms, priority sheddable", "this program"}, true},
		{openInference, "sheddable_plus", sharedsched.SheddablePlus, []string{"open-inference"}, false},
	} {
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
			o.Protocol, o.Rows, o.Label, o.Priority, o.ServerPID = tt.protocol, 3, "stable", tt.priority, os.Getpid()
		})
		if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if c := <-calls; c.Rows != 3 || c.Priority != tt.asked {
			t.Errorf("%s: a request of %d rows, priority %v; want 3, %v", tt.protocol, c.Rows, c.Priority, tt.asked)
		}
		for _, want := range append(tt.report, "policy version 1, 4 callers", "sent: OK ") {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in the report:\n%s", tt.protocol, want, out.String())
			}
		}
		if strings.Contains(out.String(), "in the server") != tt.served {
			t.Errorf("%s: the way through the server, want %v:\n%s", tt.protocol, tt.served, out.String())
		}
	}
	// One that is not there may be about to start.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := Run(ctx, optionsFor("127.0.0.1:1", func(*Options) {}), &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), `connection refused"); name the --listen address of one`) {
		t.Error(err)
	}
}
