package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// Trace is that of a request which is sampled. One goroutine at a time may use it.
type Trace struct {
	traces *Traces
	ctx    context.Context //nolint:containedctx // of the root, by which children find it
	root   trace.Span
	began  time.Time
	call   *call // whose only request it is; nil: it is one of many on a stream, or there is none

	batch   trace.SpanContext // of the batch that it was in last
	writing time.Time         // since when its answer is written
}

// Traced says how a request that is traced went.
type Traced struct {
	Request
	// Slot is the entry of the model's traffic that led to the version, "" for none.
	Slot string
	// ID and Episode are the caller's own names, and Identity is who it was charged to.
	ID, Episode, Identity string
	Priority              sharedsched.Priority
	// Why explains an error, and Reason is the constant that clients tell it by.
	Why, Reason string
	// Ended is when its answer was there, Decoded when it was read, Submitted and Returned are when the models got its
	// call and gave it back, and Encoding is since when its answer was written; zero: it did not come so far.
	Ended, Decoded, Submitted, Returned, Encoding time.Time

	Rows    int
	Outcome sharedsched.Outcome
	Phases  catalog.Phases
}

var priorities = [...]string{
	sharedsched.Critical: "critical", sharedsched.CriticalPlus: "critical-plus", sharedsched.Sheddable: "sheddable",
	sharedsched.SheddablePlus: "sheddable-plus",
}

// ID is the name of the trace, in hexadecimal digits.
func (t *Trace) ID() string { return t.root.SpanContext().TraceID().String() }

// Done makes the spans of a request that has ended, but for those of its answer's way.
func (t *Trace) Done(r *Traced) {
	t.describe(r)
	child := func(name string, from, to time.Time) {
		from = later(from, t.began)
		t.traces.child(t.ctx, name, from, later(to, from))
	}
	if r.Decoded.After(t.began) {
		child("intake", t.began, r.Decoded)
	}
	switch o := &r.Outcome; {
	case o.Executions > 0:
		ended := r.Returned
		if o.Batch != 0 {
			ended = t.traces.at(o.Ended, r.Ended)
		}
		started := ended.Add(-o.Compute)
		child("queue", started.Add(-o.Queue), started)
		t.execution(r, started, ended)
	case !r.Submitted.IsZero():
		child("queue", r.Submitted, r.Returned)
	}
	if t.writing = r.Encoding; t.writing.IsZero() {
		t.writing = r.Ended
	}
}

// execution makes the spans of an execution. Its parts are known where it was one.
func (t *Trace) execution(r *Traced, started, ended time.Time) {
	var options []trace.SpanStartOption
	if t.batch.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: t.batch}))
	}
	ctx := t.traces.child(t.ctx, "batch", started, ended, options...)
	p := &r.Phases
	if r.Outcome.Executions > 1 || p.Input+p.Run+p.Output > ended.Sub(started) {
		return
	}
	at := started
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

// Sent ends the trace: the answer was handed over to be sent, or there is none. That of a call by itself ends with it,
// when gRPC or the answer of HTTP was written.
func (t *Trace) Sent() {
	if t.call == nil {
		t.end(time.Now())
	}
}

// end ends the trace.
func (t *Trace) end(at time.Time) {
	at = later(at, t.writing)
	t.traces.child(t.ctx, "write", t.writing, at)
	t.root.End(trace.WithTimestamp(at))
}

// describe puts what is known of a request into its root.
func (t *Trace) describe(r *Traced) {
	attrs := make([]attribute.KeyValue, 0, 24)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	if r.Code != "" && (t.call == nil || t.call.web == nil) {
		attrs = append(attrs, semconv.RPCResponseStatusCode(statusName(r.Code)))
	}
	text("weft.model", r.Model)
	if r.Version > 0 {
		attrs = append(attrs, attribute.Int64("weft.version", r.Version))
	}
	text("weft.slot", r.Slot)
	text("weft.request_id", r.ID)
	text("weft.episode", r.Episode)
	text("weft.identity", r.Identity)
	text("weft.priority", priorities[r.Priority])
	text("weft.reason", r.Reason)
	if r.FailedOverFrom != 0 {
		attrs = append(attrs, attribute.Int64("weft.failed_over_from", r.FailedOverFrom))
	}
	if r.Rows > 0 {
		attrs = append(attrs, attribute.Int("weft.rows", r.Rows))
	}
	if o := &r.Outcome; o.Executions > 0 {
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
	if r.Phases.Process > 0 {
		attrs = append(attrs, workerKey.Int(r.Phases.Process))
	}
	t.root.SetAttributes(attrs...)
	fail(t.root, r.Code, r.Why)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
