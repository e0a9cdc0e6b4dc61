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

// rememberedBatches is how many batches are remembered, the latest.
const rememberedBatches = 1024

// batches are those whose requests may still be on their way back. A batch is known when it ends, and whether any of
// its requests is sampled when those end: from the first on there is a span, which ends with the last. It is a ring of
// fixed size, with the batch of a number at that number's place. One whose requests do not all come back, because they
// went on in later batches or are none (warm-up, proof, audits), leaves it when its place is taken: by the batch
// rememberedBatches later, or by the end of the server.
type batches struct {
	mu   sync.Mutex
	ring []openBatch // guarded by mu; nil until there is one
}

// openBatch is a batch; without a number it is none.
type openBatch struct {
	sharedsched.BatchEvent
	left int        // requests that have not come back
	span trace.Span // nil: none of its requests so far is sampled
}

// at returns the place of a number. The lock must be held.
func (b *batches) at(number uint64) *openBatch { return &b.ring[number%rememberedBatches] }

// batchDone notes a batch that has ended.
func (t *Traces) batchDone(e *sharedsched.BatchEvent) {
	b := &t.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ring == nil {
		b.ring = make([]openBatch, rememberedBatches)
	}
	o := b.at(e.Number)
	t.end(o)
	*o = openBatch{BatchEvent: *e, left: e.Tasks}
}

// end ends the span of a batch, if it has one.
func (t *Traces) end(o *openBatch) {
	if o.span != nil {
		o.span.End(trace.WithTimestamp(t.at(o.Started.Add(o.Elapsed), time.Now())))
	}
	*o = openBatch{}
}

// cameBack notes a request that has come back from its last batch.
func (t *Traces) cameBack(ctx context.Context, call *catalog.Call) {
	number := call.Outcome.Batch
	if number == 0 {
		return
	}
	b := &t.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ring == nil {
		return
	}
	o := b.at(number)
	if o.Number != number {
		return
	}
	if made, _ := ctx.Value(traceKey{}).(*Trace); made != nil {
		if o.span == nil {
			o.span = t.batchSpan(&o.BatchEvent, call.Version)
		}
		o.span.AddLink(trace.Link{SpanContext: made.root.SpanContext()})
		made.batch = o.span.SpanContext()
	}
	if o.left--; o.left <= 0 {
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
