package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/sharedsched"
)

// BatchDone implements shell.Observer. It is called before the callers of the batch are answered, so that it does not
// wait and, once a version is known, does not allocate. Of batches of proof and warm-up only the device time counts: no
// request waits for them.
func (t *Telemetry) BatchDone(e sharedsched.BatchEvent) {
	ctx := context.Background()
	if t.traces != nil {
		t.traces.batchDone(&e)
	}
	s := t.versions.of(e.Version, e.Device)
	t.deviceBusy.Add(ctx, e.DeviceTime.Seconds(), s.device.add...)
	// Batches of a version that does not serve yet are proof and warm-up.
	if !s.serving {
		return
	}
	t.flushes.Add(ctx, 1, s.flush[e.Reason].add...)
	t.batchSize.Record(ctx, int64(e.Rows), s.plain.record...)
	t.batchCost.Record(ctx, float64(e.DeviceTime)/1e6, s.plain.record...)
	t.batchSeconds.Record(ctx, e.DeviceTime.Seconds(), s.plain.record...)
	t.paddingRows.Add(ctx, int64(e.Padded-e.Rows), s.plain.add...)
	// The time of a failed execution says nothing about the estimate.
	if e.Estimated > 0 && !e.Failed {
		t.estimateError.Record(ctx, float64(e.DeviceTime)/float64(e.Estimated), s.plain.record...)
	}
}

// Stepped measures how long a step of a pipeline took.
func (t *Telemetry) Stepped(model string, version int64, step string, took time.Duration) {
	t.steps.Record(context.Background(), took.Seconds(), versionOf(model, version),
		metric.WithAttributes(attribute.String("step", step)))
}

// Tried counts a run in quarantine by how it ended, which is one of few constants.
func (t *Telemetry) Tried(model string, version int64, end string) {
	t.tried.Add(context.Background(), 1, versionOf(model, version), metric.WithAttributes(attribute.String("end", end)))
}

// Audited counts requests by the result of auditing them. The result is one of few constants.
func (t *Telemetry) Audited(model string, version int64, result string, n int) {
	t.audited.Add(context.Background(), int64(n), versionOf(model, version),
		metric.WithAttributes(attribute.String("result", result)))
}
