package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// Trace is the trace of a sampled request. One goroutine at a time may use it.
type Trace struct {
	traces *Traces
	ctx    context.Context //nolint:containedctx // of the root, by which children find it
	root   trace.Span
	began  time.Time
	call   *call // whose only request it is; nil: it is one of many on a stream, or there is none

	// What is known once it has come back from the scheduler.
	batch   trace.SpanContext // of the batch that it was in last
	writing time.Time         // since when its answer is written
}

// priorities are the values of the attribute weft.priority.
var priorities = [...]string{
	sharedsched.Critical: "critical", sharedsched.CriticalPlus: "critical-plus", sharedsched.Sheddable: "sheddable",
	sharedsched.SheddablePlus: "sheddable-plus",
}

// ID implements predict.Trace.
func (t *Trace) ID() string { return t.root.SpanContext().TraceID().String() }

// Done implements predict.Trace. It makes all spans of the request but the one of writing its answer. No span begins
// before the request did, though their times are of different clocks.
func (t *Trace) Done(c *predict.Course) {
	t.describe(c)
	child := func(name string, from, to time.Time) {
		from = later(from, t.began)
		t.traces.child(t.ctx, name, from, later(to, from))
	}
	if c.Decoded.After(t.began) {
		child("intake", t.began, c.Decoded)
	}
	// An executed request has times of the scheduler's. One that ended in the queue has those of the pipeline.
	switch o := &c.Event.Execution.Outcome; {
	case o.Executions > 0:
		ended := c.Returned
		if o.Batch != 0 {
			ended = t.traces.at(o.Ended, c.Event.Ended)
		}
		started := ended.Add(-o.Compute)
		child("queue", started.Add(-o.Queue), started)
		t.execution(&c.Event.Execution, started, ended)
	case !c.Submitted.IsZero():
		child("queue", c.Submitted, c.Returned)
	}
	// A request that failed has no answer to encode.
	if t.writing = c.Encoding; t.writing.IsZero() {
		t.writing = c.Event.Ended
	}
}

// execution makes the spans of an execution, and of its parts if it was one run and the parts fit into its time. The
// parts follow each other without gaps; only their lengths were measured.
func (t *Trace) execution(e *predict.Execution, started, ended time.Time) {
	var options []trace.SpanStartOption
	if t.batch.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: t.batch}))
	}
	ctx := t.traces.child(t.ctx, "batch", started, ended, options...)
	p := &e.Phases
	if e.Outcome.Executions > 1 || p.Input+p.Run+p.Output > ended.Sub(started) {
		return
	}
	at := started
	// A part that took no measurable time has no span.
	for _, part := range []struct {
		name string
		took time.Duration
	}{{"copy", p.Input}, {"run", p.Run}, {"scatter", p.Output}} {
		if part.took > 0 {
			t.traces.child(ctx, part.name, at, at.Add(part.took))
		}
		at = at.Add(part.took)
	}
}

// Sent implements predict.Trace. It ends the trace of a request on a stream. The trace of a call's only request ends
// with the call, when its answer was written.
func (t *Trace) Sent() {
	if t.call == nil {
		t.end(time.Now())
	}
}

// end makes the span of writing the answer, and ends the root.
func (t *Trace) end(at time.Time) {
	at = later(at, t.writing)
	t.traces.child(t.ctx, "write", t.writing, at)
	t.root.End(trace.WithTimestamp(at))
}

// describe puts what is known of a request into the attributes of its root. Texts of callers are cut.
func (t *Trace) describe(c *predict.Course) {
	e := c.Event
	attrs := make([]attribute.KeyValue, 0, 24)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	if e.Code != "" && (t.call == nil || t.call.web == nil) {
		attrs = append(attrs, semconv.RPCResponseStatusCode(statusName(e.Code)))
	}
	text("weft.model", e.Model)
	if e.Version > 0 {
		attrs = append(attrs, attribute.Int64("weft.version", e.Version))
	}
	text("weft.slot", e.Slot)
	text("weft.request_id", predict.Clip(e.ID))
	text("weft.episode", predict.Clip(c.Request.Episode))
	text("weft.identity", e.Identity)
	text("weft.priority", priorities[c.Request.Priority])
	text("weft.reason", e.Reason)
	if e.FailedOverFrom != 0 {
		attrs = append(attrs, attribute.Int64("weft.failed_over_from", e.FailedOverFrom))
	}
	if e.Execution.Rows > 0 {
		attrs = append(attrs, attribute.Int("weft.rows", e.Execution.Rows))
	}
	if o := &e.Execution.Outcome; o.Executions > 0 {
		attrs = append(
			attrs,
			attribute.String("weft.device", o.Device),
			attribute.String("weft.batch.flush_reason", o.Reason.String()),
			attribute.Int64("weft.batch.number", int64(o.Batch)),
			attribute.Int("weft.batch.requests", o.BatchRequests),
			attribute.Int("weft.batch.rows", o.BatchRows),
			attribute.Int("weft.batch.size", o.BatchRows+o.PaddedRows),
			attribute.Int("weft.executions", o.Executions),
			attribute.Float64("weft.queue_seconds", o.Queue.Seconds()),
			attribute.Float64("weft.compute_seconds", o.Compute.Seconds()),
			attribute.Float64("weft.device_seconds", o.DeviceTime.Seconds()),
		)
	}
	if e.Execution.Phases.Process > 0 {
		attrs = append(attrs, workerKey.Int(e.Execution.Phases.Process))
	}
	t.root.SetAttributes(attrs...)
	fail(t.root, e.Code, c.Why)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
