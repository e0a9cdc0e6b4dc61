package telemetry

import (
	"context"
	"runtime"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// showBuild sets the metric whose labels say what the program is built of. Its value says nothing.
func showBuild(ctx context.Context, m metric.Meter, cfg Config) error {
	info, err := m.Int64Gauge("weft_build_info",
		metric.WithDescription("What the program is built of, by the labels; always 1."))
	if err != nil {
		return err
	}
	info.Record(ctx, 1, metric.WithAttributes(attribute.String("version", cfg.Version),
		attribute.String("revision", cfg.Revision), attribute.String("goversion", runtime.Version())))
	return nil
}
