//go:build linux

package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRelayedDurations are durations in the log of the server, too.
func TestRelayedDurations(t *testing.T) {
	var line, log bytes.Buffer
	newLogger(&line).Warn("postponed", "event", "graph_postponed", "next_try_after", time.Minute)
	if !relay(slog.New(slog.NewTextHandler(&log, nil)), line.Bytes()) {
		t.Fatalf("%q is no record", line.String())
	}
	if !strings.HasSuffix(log.String(), " event=graph_postponed next_try_after=1m0s\n") {
		t.Errorf("%q", log.String())
	}
}
