package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
)

// tracing has telemetry follow the requests of the pipeline.
type tracing struct{ *telemetry.Traces }

// tracesOf returns nil where nothing is traced.
func tracesOf(t *telemetry.Telemetry) predict.Traces {
	if traces := t.Traces(); traces != nil {
		return tracing{traces}
	}
	return nil
}

// callsOf returns nil where nothing is traced.
func callsOf(t *telemetry.Telemetry) server.Calls {
	if traces := t.Traces(); traces != nil {
		return traces
	}
	return nil
}

// Begin implements predict.Traces.
func (t tracing) Begin(ctx context.Context, r *predict.Request) (context.Context, predict.Trace) {
	ctx, one := t.Traces.Begin(ctx, telemetry.Arrival{
		At: r.Arrived, Late: protect.Late(ctx), Stream: r.Stream, Parent: r.TraceParent,
	})
	if one == nil {
		return ctx, nil
	}
	return ctx, tracedRequest{one}
}

// tracedRequest is one of them.
type tracedRequest struct{ *telemetry.Trace }

// Done implements predict.Trace.
func (t tracedRequest) Done(c *predict.Course) {
	t.Trace.Done(&telemetry.Traced{
		Request: measuredOf(c.Event), Slot: c.Event.Slot, ID: predict.Clip(c.Event.ID),
		Episode:  predict.Clip(c.Request.Episode),
		Identity: c.Event.Identity, Priority: c.Request.Priority, Why: c.Why, Reason: c.Event.Reason,
		Ended: c.Event.Ended, Decoded: c.Decoded, Submitted: c.Submitted, Returned: c.Returned, Encoding: c.Encoding,
		Rows: c.Event.Execution.Rows, Outcome: c.Event.Execution.Outcome, Phases: c.Event.Execution.Phases,
	})
}

// flushTimeout is how long the last metrics and traces may take to be sent, also when the stop was cut short.
const flushTimeout = 3 * time.Second

// telemetryPart sends, at the end, the metrics and spans that were not exported yet.
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
