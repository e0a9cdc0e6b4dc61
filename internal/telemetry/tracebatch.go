package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// rememberedBatches is how many of the latest batches are remembered. A request that comes back after so many others
	// finds no batch to link to.
	rememberedBatches = 1024
	// linger is how long the span of a batch takes links. Its requests come back at about the same time.
	linger = time.Second
)

// workerKey names the process that an engine ran in, if that is not the server.
const workerKey = attribute.Key("weft.worker.pid")

// batches are the latest batches, in a ring: the batch of a number is at the number's place. A batch gets a span when
// the first of its sampled requests has come back. The span ends when it has lingered, when another batch takes its
// place, or with the server.
type batches struct {
	mu   sync.Mutex
	ring []openBatch // guarded by mu; nil until there is one
}

// openBatch is a batch that may still take links. Number 0 is none.
type openBatch struct {
	sharedsched.BatchEvent

	span trace.Span // nil: none of its requests so far is sampled
}

// batchDone notes a batch that has ended. Its requests come back afterwards.
func (t *Traces) batchDone(e *sharedsched.BatchEvent) {
	b := &t.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ring == nil {
		b.ring = make([]openBatch, rememberedBatches)
	}
	o := &b.ring[e.Number%rememberedBatches]
	t.end(o)
	o.BatchEvent = *e
}

// end ends the span of a batch, if it has one. The lock must be held.
func (t *Traces) end(o *openBatch) {
	if o.span != nil {
		o.span.End(trace.WithTimestamp(t.at(o.Started.Add(o.Elapsed), time.Now())))
		o.span = nil
	}
	o.Number = 0
}

// cameBack notes a request that has come back from its last batch. It returns the context for exemplars: an empty one
// if the request is not sampled, so that none leads to its trace.
func (t *Telemetry) cameBack(ctx context.Context, call *catalog.Call) context.Context {
	if t.traces == nil || !call.Traced {
		return context.Background()
	}
	made, _ := ctx.Value(traceKey{}).(*Trace)
	if made == nil {
		return context.Background()
	}
	t.traces.cameBack(made, call)
	return ctx
}

// cameBack links a sampled request with the batch that it was in last, in both directions.
func (t *Traces) cameBack(made *Trace, call *catalog.Call) {
	b, number := &t.batches, call.Outcome.Batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if number == 0 || b.ring == nil {
		return
	}
	// The place may have a later batch by now.
	o := &b.ring[number%rememberedBatches]
	if o.Number != number {
		return
	}
	if o.span == nil {
		o.span = t.batchSpan(&o.BatchEvent, call.Version)
		if pid := call.Phases.Process; pid > 0 {
			o.span.SetAttributes(workerKey.Int(pid))
		}
		// By then the place may have another number, which endBatch sees.
		time.AfterFunc(linger, func() { t.endBatch(number) })
	}
	o.span.AddLink(trace.Link{SpanContext: made.root.SpanContext()})
	made.batch = o.span.SpanContext()
}

// endBatch ends the span of a batch that has lingered, if the batch is still remembered.
func (t *Traces) endBatch(number uint64) {
	b := &t.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := &b.ring[number%rememberedBatches]; o.Number == number {
		t.end(o)
	}
}

// batchSpan begins the span of a batch of a version.
func (t *Traces) batchSpan(e *sharedsched.BatchEvent, v *catalog.Version) trace.Span {
	_, span := t.kept.Start(context.Background(), "batch", trace.WithNewRoot(),
		trace.WithTimestamp(t.at(e.Started, time.Now())), trace.WithAttributes(
			attribute.String("weft.model", v.Model),
			attribute.Int64("weft.version", v.Number),
			attribute.String("weft.device", e.Device),
			attribute.Int("weft.lane", int(e.Lane)),
			attribute.Int64("weft.batch.number", int64(e.Number)),
			attribute.Int("weft.batch.requests", e.Tasks),
			attribute.Int("weft.batch.rows", e.Rows),
			attribute.Int("weft.batch.size", e.Padded),
			attribute.String("weft.batch.flush_reason", e.Reason.String()),
			attribute.String("weft.batch.pick_rule", e.Rule.String()),
			attribute.Float64("weft.batch.slack_seconds", e.Slack.Seconds()),
			attribute.Float64("weft.batch.expected_seconds", e.Estimated.Seconds()),
			attribute.Float64("weft.batch.device_seconds", e.DeviceTime.Seconds()),
			attribute.Bool("weft.batch.failed", e.Failed),
		))
	return span
}

// closeBatches ends the spans of all batches.
func (t *Traces) closeBatches() {
	b := &t.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.ring {
		t.end(&b.ring[i])
	}
}
