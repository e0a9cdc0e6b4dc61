package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
)

// readiness is the answer of /readyz: "loading", "ready", "draining" or, of a server that is ready, "stalled" while
// none of its models answers.
type readiness struct {
	now     atomic.Value
	stalled atomic.Bool
}

func newReadiness() *readiness {
	r := &readiness{}
	r.now.Store("loading")
	return r
}

func (r *readiness) set(state string) { r.now.Store(state) }

// ServeHTTP answers 200 exactly while requests can be answered.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := r.now.Load()
	if state == "ready" && r.stalled.Load() {
		state = "stalled"
	}
	if state != "ready" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, state)
}

// A caller gets this long to send its request and to take the answer.
const httpTimeout = 30 * time.Second

// httpPart serves metrics and health.
func httpPart(l net.Listener, metrics, ready http.Handler) lifecycle.Part {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /readyz", ready)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	s := &http.Server{Handler: mux, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout}
	return lifecycle.Part{
		Name: "HTTP server",
		Run: func() error {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		Stop: func(ctx context.Context) error {
			// No answer was promised here: a client that is slow to take one must not hold up the end.
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if s.Shutdown(ctx) != nil {
				return s.Close()
			}
			return nil
		},
	}
}
