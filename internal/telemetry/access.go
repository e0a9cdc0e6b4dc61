package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// RequestDenied counts a request that was denied, or refused by a quota. The identity is one of the access file, and
// the reason one of few constants.
func (t *Telemetry) RequestDenied(identity, reason string) {
	t.denied.Add(context.Background(), 1,
		metric.WithAttributes(attribute.String("identity", identity), attribute.String("reason", reason)))
}
