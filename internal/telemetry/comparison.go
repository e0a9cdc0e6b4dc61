package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/server/shadow"
)

// maxDifference stands for all larger differences: an infinite one, as between a number and NaN, would make the sum of
// the histogram infinite for ever.
const maxDifference = 1e6

// ShadowDone implements shadow.Observer.
func (t *Telemetry) ShadowDone(e shadow.Event) {
	ctx, version := context.Background(), versionOf(e.Model, e.Shadow)
	t.shadows.Add(ctx, 1, version, metric.WithAttributes(attribute.String("outcome", string(e.Outcome))))
	if e.Outcome != shadow.Done {
		return
	}
	agreed := int64(0) // also counted: where no answer agrees, a ratio must find 0, and not nothing
	if e.Agreed {
		agreed = 1
	}
	t.agreed.Add(ctx, agreed, version)
	t.difference.Record(ctx, min(e.MaxRelative, maxDifference), version)
	// There is none if either time was not measured.
	if e.ComputeRatio > 0 {
		t.slower.Record(ctx, e.ComputeRatio, version)
	}
}

// OutcomeReported counts a report of how an episode went.
func (t *Telemetry) OutcomeReported(model string, version int64) {
	t.outcomes.Add(context.Background(), 1, versionOf(model, version))
}

// OutcomeNotKept counts a number of a report that was not kept. The reason is one of few constants.
func (t *Telemetry) OutcomeNotKept(model string, version int64, reason string) {
	t.notKept.Add(context.Background(), 1, versionOf(model, version),
		metric.WithAttributes(attribute.String("reason", reason)))
}

// Uploaded counts an upload of a version, and the bytes of files that came with it. The outcome is one of a few.
func (t *Telemetry) Uploaded(outcome string, bytes int64) {
	t.uploads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
	t.uploadBytes.Add(context.Background(), bytes)
}

// versionOf returns the labels of a version, for metrics too rare to have them put together beforehand.
func versionOf(model string, version int64) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("model", model),
		attribute.String("version", strconv.FormatInt(version, 10)))
}

// Verdict is that of a model's latest rollout on its candidate: 0, 1 or -1.
type Verdict struct {
	Model   string
	Version int64
	Value   int64
}

// Breaker is the circuit breaker of one version: closed, half-open or open.
type Breaker struct {
	Model   string
	Version int64
	State   string
}
