package app

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/weftest"
)

func TestProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a second")
	}
	const latencies = "go_sched_latencies_seconds"
	for _, asked := range []bool{false, true} {
		t.Run(strconv.FormatBool(asked), func(t *testing.T) {
			repository := t.TempDir()
			weftest.AddVersion(t, repository, "walker", 1)
			weftest.SetManifest(t, repository, "walker", "synth: {base: 1ms, "+tensors+"}")
			r := serveFrom(t, repository, func(a *App) { a.Pprof = asked })
			r.awaitReady(t)
			for path, want := range map[string]string{
				"/debug/pprof/":                   "goroutine",
				"/debug/pprof/goroutine?debug=1":  "goroutine profile: total",
				"/debug/pprof/cmdline":            "app.test",
				"/debug/pprof/trace?seconds=0.01": "go 1.",
				"/debug/pprof/profile?seconds=1":  "",
			} {
				status, body := r.get(t, path)
				if served := status == http.StatusOK && strings.Contains(body, want); served != asked {
					t.Errorf("%s: status %d, %.100q", path, status, body)
				}
			}
			if _, page := r.get(t, "/metrics"); strings.Contains(page, latencies) != asked {
				t.Errorf("the metrics have %s: %v", latencies, !asked)
			}
		})
	}
}

// TestExposedProfiles: an address that is not loopback is warned of.
func TestExposedProfiles(t *testing.T) {
	var log bytes.Buffer
	s := &assembly{
		App: &App{}, log: slog.New(slog.NewTextHandler(&log, nil)), measured: &telemetry.Telemetry{},
	}
	s.Pprof = true
	for address, warned := range map[string]bool{"127.0.0.1:9001": false, "0.0.0.0:9001": true} {
		log.Reset()
		s.HTTP = address
		s.pages(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), http.NotFoundHandler())
		if strings.Contains(log.String(), "event=pprof_exposed") != warned {
			t.Errorf("%s: warned of: %v; logged %q", address, !warned, log.String())
		}
	}
}
