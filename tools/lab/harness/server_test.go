package harness_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// script returns a program that runs lines of a shell.
func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := harness.Write(path, []byte("#!/bin/sh\n"+lines)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServer that says where it listens, and stops in order or does not.
func TestServer(t *testing.T) {
	const ready = `echo '{"event":"http_listening","http":"h:1"}' >&2
echo no record >&2
echo '{"event":"ready","grpc":"g:1"}' >&2
`
	for name, tt := range map[string]struct{ lines, started, stopped string }{
		"in order":     {ready + "trap 'exit 0' TERM\nwhile :; do read -r line; done\n", "", ""},
		"with a fault": {ready + "trap 'echo bad >&2; exit 3' TERM\nwhile :; do read -r line; done\n", "", "exit status 3"},
		"never":        {"exec sleep 60", "not ready within", ""},
		"at once":      {"echo why >&2", "ended before it was ready: see", ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := 0
			s, err := harness.Start(t.Context(), harness.Options{
				Program: script(t, tt.lines), Log: filepath.Join(t.TempDir(), "log"), Load: time.Second,
				Line: func([]byte) { lines++ },
			})
			if err != nil || tt.started != "" {
				if err == nil || tt.started == "" || !strings.Contains(err.Error(), tt.started) {
					t.Errorf("%v, want %q", err, tt.started)
				}
				return
			}
			if s.GRPC != "g:1" || s.HTTP != "h:1" || s.Admin != "" || s.Died() || len(harness.Family(s.PID())) != 1 {
				t.Errorf("%+v, died: %v", s, s.Died())
			}
			err = s.Stop()
			if (err == nil) != (tt.stopped == "") || err != nil && !strings.Contains(err.Error(), tt.stopped) {
				t.Errorf("%v, want %q", err, tt.stopped)
			}
			if err != nil && !strings.HasSuffix(err.Error(), "\nbad") {
				t.Errorf("%v does not have the end of the log", err)
			}
			if lines < 3 || !s.Died() {
				t.Errorf("%d lines were looked at, it died: %v", lines, s.Died())
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	page := "# TYPE a counter\na{x=\"y\"} 3.5\na{x=\"z\"} 1\n# TYPE g gauge\ng 2\nu 7\n"
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(page))
	}))
	defer pages.Close()
	s := &harness.Server{HTTP: strings.TrimPrefix(pages.URL, "http://")}
	m, err := s.Metrics(t.Context())
	if err != nil || m.Sum("a") != 4.5 || m.Sum("g") != 2 || m.Sum("u") != 7 || m.Sum("none") != 0 {
		t.Errorf("%v, %v", m, err)
	}
	if v, err := m.Value("a", "x", "y"); err != nil || v != 3.5 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := m.Value("a", "x", "none"); err == nil || !strings.Contains(err.Error(), `lack a{x="none"}`) {
		t.Errorf("of a series that is not there: %v", err)
	}
	if _, err := s.Get(t.Context(), "/none"); err == nil {
		t.Error("a page that is not there is no error")
	}
}
