package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/weftest"
)

// running is a server in this process.
type running struct {
	conn    *grpc.ClientConn
	admin   *grpc.ClientConn
	http    string // URL
	inForce string // the log's records of decisions of an earlier server
	signals chan os.Signal
	result  chan error

	warnings weftest.Log // the log's records from that level on
	// stop asks the server to stop, unless it was asked before; close waits for that, and wants nothing to be left.
	stop, close func()
}

// announcements is a log handler that passes on addresses, the earlier decisions in force, and warnings.
type announcements struct {
	slog.Handler
	grpc, http, admin chan string // capacity 1
	inForce           *string     // not to be read before grpc
	warnings          *weftest.Log
}

func (a announcements) Enabled(context.Context, slog.Level) bool { return true }

func (a announcements) Handle(ctx context.Context, r slog.Record) error {
	if a.Handler.Enabled(ctx, r.Level) {
		if err := a.Handler.Handle(ctx, r.Clone()); err != nil {
			return err
		}
	}
	event := weftest.Attr(r, "event").String()
	to := map[string]chan string{
		"http_listening": a.http, "grpc_listening": a.grpc, "admin_listening": a.admin,
	}[event]
	r.Attrs(func(attr slog.Attr) bool {
		if event == "decisions_restored" && attr.Key != "event" {
			*a.inForce += attr.String() + " "
		}
		if to != nil && (attr.Key == "grpc" || attr.Key == "http" || attr.Key == "admin") {
			to <- attr.Value.String()
		}
		return true
	})
	if r.Level < slog.LevelWarn {
		return nil
	}
	return a.warnings.Handle(ctx, r)
}

// serve serves synthetic models, given by their model.yaml, and stops at the end of the test.
func serve(t *testing.T, manifests map[string]string) *running {
	t.Helper()
	repository := t.TempDir()
	for model, manifest := range manifests {
		weftest.AddVersion(t, repository, model, 1)
		weftest.SetManifest(t, repository, model, manifest)
	}
	return serveFrom(t, repository, nil)
}

// serveFrom serves a repository with settings that adjust, if there, has changed, and stops at the end of the test.
func serveFrom(t testing.TB, repository string, adjust func(*App)) *running {
	t.Helper()
	return serveLogging(t, repository, adjust, slog.DiscardHandler)
}

// serveLogging is serveFrom with a log.
func serveLogging(t testing.TB, repository string, adjust func(*App), to slog.Handler) *running {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	c := &App{Settings: Settings{Repositories: []string{repository}, Server: config.DefaultServer()}}
	c.Listen, c.HTTP, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.settle, c.LameDuck = 50*time.Millisecond, 0
	if adjust != nil {
		adjust(c)
	}
	r := &running{signals: make(chan os.Signal, 2), result: make(chan error, 1)}
	log := announcements{
		to, make(chan string, 1), make(chan string, 1), make(chan string, 1),
		&r.inForce, &r.warnings,
	}
	r.stop = sync.OnceFunc(func() { r.signals <- syscall.SIGTERM })
	go func() { r.result <- c.serve(r.signals, slog.New(log)) }()
	announced := func(address <-chan string) string {
		t.Helper()
		select {
		case a := <-address:
			return a
		case err := <-r.result:
			t.Fatalf("the server ended before it began: %v", err)
			return ""
		}
	}
	r.http = "http://" + announced(log.http)
	conn, err := weftest.Dial(announced(log.grpc))
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	if r.admin, err = weftest.Dial(announced(log.admin)); err != nil {
		t.Fatal(err)
	}
	r.close = sync.OnceFunc(func() {
		conn.Close()
		r.admin.Close()
		r.stop()
		if err := <-r.result; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
		noLeaks(t, leaks)
	})
	t.Cleanup(r.close)
	return r
}

// noLeaks waits until only goroutines are left that were there before. A driver that is left behind may take its time
// on a slow machine.
func noLeaks(t testing.TB, but goleak.Option) {
	err := goleak.Find(but) // which itself tries for a while
	for begin := time.Now(); err != nil && time.Since(begin) < weftest.Patience; {
		err = goleak.Find(but)
	}
	if err != nil {
		t.Error(err)
	}
}

func (r *running) awaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if err := weftest.AwaitHealth(ctx, r.conn, healthgrpc.HealthCheckResponse_SERVING); err != nil {
		t.Fatal(err)
	}
	if r.http != "" {
		weftest.Until(t, "a server that loads nothing", func() bool { return weftest.Settled(ctx, r.http) })
	}
}

func (r *running) get(t testing.TB, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(r.http + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const (
	tensors = weftest.Tensors
	quick   = `synth: {base: 0s, ` + tensors + `}`
)

func TestStopTellsThoseWhoWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	r := serve(t, map[string]string{"slow": `{synth: {base: 400ms, ` + tensors + `}, batching: {mode: "off"}}`})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	watch, err := healthgrpc.NewHealthClient(r.conn).Watch(ctx, &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan map[codes.Code]int)
	go func() {
		ended, _ := weftest.Predict(ctx, r.conn, "slow", "x", 4)
		answered <- ended
	}()
	if err := weftest.AwaitQueue(ctx, r.conn, "slow", 3); err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthgrpc.HealthCheckResponse_ServingStatus{
		healthgrpc.HealthCheckResponse_SERVING, healthgrpc.HealthCheckResponse_NOT_SERVING,
	} {
		if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
			t.Errorf("the watch hears %v, %v, want %v", got, err, want)
		}
		r.stop()
	}
	if code, body := r.get(t, "/readyz"); code != http.StatusServiceUnavailable || body != "draining\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if ended := <-answered; ended[codes.OK] != 4 {
		t.Errorf("accepted requests ended %v, want OK", ended)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == workerCommand { // the test binary is the program whose servers start workers
		if err := Work(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	os.RemoveAll(driverFolder)
	os.Exit(status)
}

// TestInferenceWhileStarting: before there is anything to answer, the Open Inference Protocol says so in its own form.
func TestInferenceWhileStarting(t *testing.T) {
	s := &assembly{
		App: &App{}, log: slog.New(slog.DiscardHandler), measured: &telemetry.Telemetry{},
	}
	pages := s.pages(&net.TCPAddr{}, http.NotFoundHandler())
	for _, path := range []string{"/v2", "/v2/health/ready", "/v2/models/x/infer"} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		var body struct{ Error string }
		err := json.Unmarshal(w.Body.Bytes(), &body)
		if err != nil || w.Code != http.StatusServiceUnavailable || body.Error == "" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s, %v", path, w.Code, w.Header(), w.Body, err)
		}
	}
}
