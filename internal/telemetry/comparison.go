package telemetry

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/server/shadow"
)

// comparison are the metrics of versions that are compared with each other.
type comparison struct {
	degraded   metric.Int64Counter
	failedOver metric.Int64Counter
	shadows    metric.Int64Counter
	agreed     metric.Int64Counter
	difference metric.Float64Histogram
	slower     metric.Float64Histogram
	outcomes   metric.Int64Counter
	notKept    metric.Int64Counter
}

var differences = metric.WithExplicitBucketBoundaries(0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1)

func newComparison(m metric.Meter) (comparison, error) {
	var (
		s    comparison
		errs [8]error
	)
	s.degraded, errs[0] = m.Int64Counter("weft_routing_degraded_total",
		metric.WithDescription("Requests without an episode although traffic is split: their version was chosen "+
			"request by request."))
	s.failedOver, errs[1] = m.Int64Counter("weft_failed_over_total",
		metric.WithDescription("Requests that another version answered because the breaker of theirs was open, by the "+
			"version that should have."))
	s.shadows, errs[2] = m.Int64Counter("weft_shadow_requests_total",
		metric.WithDescription("Answered requests for a shadow, by how that ended: done, dropped for want of room "+
			"or time, failed, or skipped by the sample or since it was not ready."))
	s.agreed, errs[3] = m.Int64Counter("weft_shadow_agreed_total",
		metric.WithDescription("Answers of a shadow that were within the tolerance of the answer that was given."))
	s.difference, errs[4] = m.Float64Histogram("weft_shadow_difference_ratio", differences,
		metric.WithDescription("Largest difference between an element of a shadow's answer and the answer that was "+
			"given, as a part of the output's largest magnitude."))
	s.slower, errs[5] = m.Float64Histogram("weft_shadow_compute_ratio", ratios,
		metric.WithDescription("Time of a shadow's executions divided by that of the answer that was given."))
	s.outcomes, errs[6] = m.Int64Counter("weft_outcomes_total",
		metric.WithDescription("Episodes whose outcome was reported."))
	s.notKept, errs[7] = m.Int64Counter("weft_outcomes_not_kept_total",
		metric.WithDescription("Numbers of reported outcomes that there was no room for, by why; the answers to the "+
			"reports said so."))
	return s, errors.Join(errs[:]...)
}

// maxDifference stands for all larger differences: an infinite one, as between a number and none, would make the sum
// infinite.
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

func versionOf(model string, version int64) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("model", model),
		attribute.String("version", strconv.FormatInt(version, 10)))
}

// Breaker is the circuit breaker of one version: closed, half-open or open.
type Breaker struct {
	Model   string
	Version int64
	State   string
}
