package loadgen

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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

// TestUserMistakes: each is told before anything is measured.
func TestUserMistakes(t *testing.T) {
	_, address := house(t)
	requests := filepath.Join(t.TempDir(), "requests.json")
	if err := os.WriteFile(requests, []byte(`{"inputs": {"wrong": {"dtype": "DATA_TYPE_FP32", "shape": [1]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no such model":   {func(o *Options) { o.Model = "polcy" }, "policy"},
		"no such version": {func(o *Options) { o.Version = 7 }, "versions"},
		"too many rows":   {func(o *Options) { o.Rows = 101 }, "refuses its first request"},
		"wrong input":     {func(o *Options) { o.Request = requests }, `wrong`},
		"two loops":       {func(o *Options) { o.Rate = 3 }, "--rate: set beside another of callers"},
		"no model":        {func(o *Options) { o.Model = "" }, "--model: not set"},
		"flags beside a file": {
			func(o *Options) { o.Streams = "streams.yaml" },
			"--streams: beside flags of one stream",
		},
		"no such process": {func(o *Options) { o.ServerPID = 1 << 30 }, "--server-pid 1073741824: there is no such process"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), optionsFor(address, tt.change), &bytes.Buffer{}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant ...%s...", err, tt.want)
			}
		})
	}
}
