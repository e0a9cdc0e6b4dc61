package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/stats"
)

// wanted reports whether the environment asks for METRICS or TRACES to be exported: by naming an exporter, or a
// collector to send to. The specification would send to localhost without being asked.
func wanted(signal string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// metricExporter returns nil if the environment asks for none.
func metricExporter(ctx context.Context) (sdkmetric.Reader, error) {
	// The specification's Prometheus exporter listens on a port of its own; here the metrics are on the page anyway.
	if !wanted("METRICS") || os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus" {
		return nil, nil
	}
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_METRICS_EXPORTER=%q: %w; it may be otlp, prometheus, console or none",
			os.Getenv("OTEL_METRICS_EXPORTER"), err)
	}
	return reader, nil
}

// tracerProvider returns nil if the environment asks for none. OTEL_TRACES_SAMPLER decides which traces are sampled.
func tracerProvider(ctx context.Context, identity *resource.Resource) (*sdktrace.TracerProvider, error) {
	if !wanted("TRACES") {
		return nil, nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_TRACES_EXPORTER=%q: %w; it may be otlp, console or none",
			os.Getenv("OTEL_TRACES_EXPORTER"), err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(identity)), nil
}

// traceCalls makes a span of every call but those that only look whether the server is there.
func traceCalls(traces *sdktrace.TracerProvider) stats.Handler {
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(traces),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()), // requests are counted by their own metrics
		otelgrpc.WithPropagators(
			propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
		otelgrpc.WithFilter(filters.None(filters.HealthCheck(), filters.ServicePrefix("grpc.reflection."))),
	)
}

// reportFailures logs exports that fail: a collector that is away harms nothing else. The library knows one handler per
// process.
func reportFailures(log *slog.Logger) {
	log = cmp.Or(log, slog.Default())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("telemetry export failed", "event", "telemetry_export_failed", "cause", err)
	}))
}
