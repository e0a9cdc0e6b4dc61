package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
)

// tracesOf returns nil where nothing is traced: a nil pointer in the interface would not be nil.
func tracesOf(t *telemetry.Telemetry) predict.Traces {
	if traces := t.Traces(); traces != nil {
		return traces
	}
	return nil
}

// callsOf returns nil where nothing is traced, as tracesOf does.
func callsOf(t *telemetry.Telemetry) server.Calls {
	if traces := t.Traces(); traces != nil {
		return traces
	}
	return nil
}

// flushTimeout is how long sending the last metrics and traces may take, even when the stop was cut short.
const flushTimeout = 3 * time.Second

// telemetryPart sends, at its stop, the metrics and spans that were not exported yet.
func telemetryPart(t *telemetry.Telemetry, log *slog.Logger) lifecycle.Part {
	return lifecycle.Part{Name: "telemetry", Stop: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		// A collector that is away does not make the end a failure.
		if err := t.Shutdown(ctx); err != nil {
			log.Warn("last telemetry export failed", "event", "telemetry_flush_failed", "cause", err)
		}
		return nil
	}}
}
