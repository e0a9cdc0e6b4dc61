package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // it adds its pages to the default mux, too, which nobody serves
	"strings"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/live"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/web"
)

// health is server.Server.Health, and "loading" before there is an edge to ask.
func (s *assembly) health() string {
	if s.web.Load() == nil {
		return "loading"
	}
	return s.edge.Health()
}

// serverReady answers 200 exactly while requests can be answered, and else 503 with the state.
func (s *assembly) serverReady(w http.ResponseWriter, _ *http.Request) { tell(w, s.health()) }

// tell answers with a state, and the code by which load balancers go.
func tell(w http.ResponseWriter, state string) {
	if state != "ready" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, state) //nolint:gosec // one of a few words
}

// httpTimeout is how long a caller may take to send its request. From the end of the header on, the answer has as long.
const httpTimeout = 30 * time.Second

// inferencePaths are those of the protocols: TensorFlow Serving's and KServe's, and the Open Inference Protocol.
var inferencePaths = []string{"/v1/", "/v2/"}

// ownPaths are the calls of pages, for callers who look for another one.
var ownPaths = []string{"GET /metrics", "GET /healthz", "GET /readyz", "GET /readyz/{model}", "GET " + live.Path}

// pages are what the HTTP server answers: metrics, health, what is shown live and, if they are asked for, profiles; the
// edge answers all others. Paths that need the edge answer 503 until there is one. Health needs no identity; the other
// handlers authorize their callers themselves.
func (s *assembly) pages(at net.Addr, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.control.Page(access.Observe, metrics))
	mux.HandleFunc("GET /readyz", s.serverReady)
	mux.HandleFunc("GET /readyz/{model}", s.modelReady)
	calls := s.measured.TraceWeb(s.once(&s.web))
	mux.Handle("/", calls)
	mux.Handle("GET /docs", calls) // else ServeMux sends its callers to /docs/
	mux.HandleFunc(live.Path, s.once(&s.live))
	for path, to := range map[string]string{"/{$}": "live/", "/live": "live/", "/docs/{$}": "../docs"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			// Probes of version 1 of KServe's protocol ask for the root, and browsers for a page.
			if r.URL.Path == "/" && !strings.Contains(r.Header.Get("Accept"), "text/html") {
				web.WriteJSON(w, http.StatusOK, map[string]string{"status": "alive"})
				return
			}
			w.Header().Set("Location", to) // relative: a proxy may have it elsewhere
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
	// It says only that the process runs: orchestrators restart a server by it, and must not do so while models load.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	if s.Pprof {
		addProfiles(mux, s.control)
		if open, _ := s.Open(); open["http"] != "" {
			s.log.Warn("PROFILES OPEN TO THE NETWORK, WITHOUT AUTHENTICATION", "event", "pprof_exposed",
				"http", at.String(), "effect", "whoever reaches the address can slow the server down, and see what it runs",
				"remedy", "serve --http on loopback, or leave --pprof out when you have the profile")
		}
	}
	return mux
}

// once serves a part of the edge as soon as there is one. Until then it answers 503 in the form of the Open Inference
// Protocol.
func (*assembly) once(part *atomic.Pointer[http.Handler]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h := part.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, `{"error":"the server is starting, try again"}`)
	}
}

// nearestCall says which call is nearest to one that there is not.
func (s *assembly) nearestCall(method, path string) string {
	if h := s.web.Load(); h != nil {
		return (*h).(*web.Mux).Nearest(method, path)
	}
	return "the server is starting"
}

// modelReady answers 200 exactly while requests of a model can be answered. A caller that may not see the model gets
// the 404 of one that does not exist, so that names cannot be found out.
func (s *assembly) modelReady(w http.ResponseWriter, r *http.Request) {
	model := r.PathValue("model")
	if s.web.Load() == nil {
		http.Error(w, "loading", http.StatusServiceUnavailable)
		return
	}
	state := s.edge.ModelHealth(model)
	switch {
	case state == "" || !s.control.Visitor(r).Sees(model):
		http.Error(w, "there is no such model, or the caller may not know of it", http.StatusNotFound)
		return
	// The models go on while the server drains, and take no further requests.
	case s.health() == "draining":
		state = "draining"
	}
	tell(w, state)
}

// addProfiles serves profiles at the paths of net/http/pprof, where tools look for them, to callers who may operate.
func addProfiles(mux *http.ServeMux, control *access.Control) {
	for path, page := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("/debug/pprof/"+path, control.Page(access.Operate, page))
	}
}

const (
	// Cookies and tokens fit. The default of net/http, 1 MiB, is memory that any caller could hold. A caller that sends
	// its headers slowly holds a connection at no cost: hence the short time.
	httpHeaderBytes = 16 << 10
	httpHeaderTime  = 5 * time.Second
	httpIdle        = time.Minute // longer than collectors of metrics wait between two requests
)

// httpPart serves pages. A connection passes the guard of connections, then TLS; a request passes the guard against
// other sites' pages in browsers. Certificates are asked of all callers only where there is no access file: with one,
// its rules decide.
func (s *assembly) httpPart(l net.Listener, pages http.Handler) lifecycle.Part {
	s.httpGuard.Local, s.httpGuard.Hosts, s.httpGuard.Origins = config.Local(addressOf(l)), s.HTTPHosts, s.HTTPOrigins
	s.httpGuard.Identified, s.httpGuard.Public = s.Identified() && s.Access == "", []string{"/healthz", "/readyz"}
	s.httpGuard.Bodies, s.httpGuard.Nearest = inferencePaths, s.nearestCall
	l = s.connections.ListenHTTP(l)
	if s.certs != nil {
		l = tls.NewListener(l, s.certs.HTTP())
	}
	s.pagesServer = &http.Server{
		Handler: protect.Pages(s.httpGuard.Handler(s.until(pages))),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return protect.ConnContext(access.ConnContext(ctx, c), c)
		},
		ReadTimeout: httpTimeout, WriteTimeout: httpTimeout,
		ReadHeaderTimeout: httpHeaderTime, IdleTimeout: httpIdle, MaxHeaderBytes: httpHeaderBytes,
		ErrorLog: slog.NewLogLogger(complaints{s.log.Handler(), s.certs}, slog.LevelDebug),
	}
	return serveHTTP(l, s.pagesServer)
}

// until serves pages. Once the server is parting, connections end with their next answer: a connection that was closed
// while its caller sends a request would fail that.
func (s *assembly) until(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.parting.Load() {
			w.Header().Set("Connection", "close")
		}
		pages.ServeHTTP(w, r)
	})
}

// serveHTTP serves until it is stopped. The end of the listener by a stop is no error.
func serveHTTP(l net.Listener, s *http.Server) lifecycle.Part {
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

// complaints is the handler of net/http's own log. It counts failed handshakes, and lowers everything else to debug,
// because any client can cause as many lines as it likes.
type complaints struct {
	slog.Handler // of the log

	certs *certs.Keeper // nil: there is no TLS
}

// Enabled implements slog.Handler: what is said decides.
func (complaints) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c complaints) Handle(_ context.Context, r slog.Record) error {
	// net/http has no hook for failed handshakes, only this text.
	if failed, is := strings.CutPrefix(r.Message, "http: TLS handshake error from "); is && c.certs != nil {
		peer, cause, _ := strings.Cut(failed, ": ")
		c.certs.Failed("http", peer, cause)
		return nil
	}
	log := slog.New(c.Handler)
	log.Debug("HTTP connection failed", "event", "http_connection_failed", "cause", r.Message)
	return nil
}
