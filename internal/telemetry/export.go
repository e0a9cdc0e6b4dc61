package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// wanted reports whether the environment asks for METRICS or TRACES to be exported, by naming an exporter or a
// collector. The specification's default would send to localhost without being asked.
func wanted(signal string) bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// metricExporter returns the exporter that the environment asks for, or nil.
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

// tracesWanted returns traces with the exporter that the environment asks for, or nil. OTEL_TRACES_SAMPLER decides
// which requests are sampled.
func tracesWanted(ctx context.Context, identity *resource.Resource) (*Traces, error) {
	if !wanted("TRACES") {
		return nil, nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_TRACES_EXPORTER=%q: %w; it may be otlp, console or none",
			os.Getenv("OTEL_TRACES_EXPORTER"), err)
	}
	// A batch processor sends in the background; a span that finds its queue full is dropped.
	t := newTraces(sdktrace.NewBatchSpanProcessor(exporter), sdktrace.WithResource(identity))
	t.roots = rootsSampled()
	return t, nil
}

// rootsSampled returns the part of requests without a parent that the sampler of OTEL_TRACES_SAMPLER takes. It is 1 for
// a sampler that decides by more than chance, which then has to see each request.
func rootsSampled() float64 {
	switch os.Getenv("OTEL_TRACES_SAMPLER") {
	case "always_off", "parentbased_always_off":
		return 0
	case "traceidratio", "parentbased_traceidratio":
		part, err := strconv.ParseFloat(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), 64)
		if err != nil {
			return 1 // the sampler says what it makes of that
		}
		return min(max(0, part), 1)
	}
	return 1
}

// reportFailures logs exports that fail. A collector that is away has no other effect. The library has one handler for
// the whole process.
func reportFailures(log *slog.Logger) {
	log = cmp.Or(log, slog.Default())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("telemetry export failed", "event", "telemetry_export_failed", "cause", err)
	}))
}
