package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/internal/config"
)

// logOne logs a record with a duration and a context, and returns its line.
func logOne(ctx context.Context, format config.LogFormat) string {
	var log logText
	settings := Settings{Server: config.Server{LogLevel: "info", LogFormat: format}}
	newLogger(&log, &settings, new(slog.LevelVar)).With("part", "x").
		InfoContext(ctx, "seen", "event", "seen", "took", 1500*time.Millisecond)
	return log.lines()[0]
}

// TestDurationsSayTheirUnit where programs read them, and people read them as they are used to.
func TestDurationsSayTheirUnit(t *testing.T) {
	var read map[string]any
	if err := json.Unmarshal([]byte(logOne(t.Context(), "json")), &read); err != nil {
		t.Fatal(err)
	}
	if _, bare := read["took"]; bare || read["took_seconds"] != 1.5 {
		t.Errorf("%v, want took_seconds: 1.5 and no took", read)
	}
	if line := logOne(t.Context(), "text"); !strings.HasSuffix(line, " part=x event=seen took=1.5s") {
		t.Errorf("%q", line)
	}
}

// TestLinesNameTheirSpan where their context has one.
func TestLinesNameTheirSpan(t *testing.T) {
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	for format, want := range map[config.LogFormat]string{
		"json": `,"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"}`,
		"text": ` trace_id=01000000000000000000000000000000 span_id=0200000000000000`,
	} {
		if line := logOne(ctx, format); !strings.HasSuffix(line, want) {
			t.Errorf("%q, want ...%s", line, want)
		}
		if line := logOne(t.Context(), format); strings.Contains(line, "trace_id") {
			t.Errorf("%q names a trace where there is none", line)
		}
	}
}
