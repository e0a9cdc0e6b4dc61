// Package telemetry turns the events that the server's observers get into metrics and traces.
//
// Metrics are always there for Prometheus to fetch. Metrics and traces are also exported as the standard OTEL_*
// variables say. Without these nothing is sent, and nothing is traced.
//
// # Metrics
//
// instruments record events as they happen: requests, batches, shadows. Their labels are put together when a version is
// first seen, so that an event neither waits nor allocates. Everything else is read from its source when a page is made
// (gauges.go, accounts.go, sources.go), and what belongs together is read at one moment, so that the numbers of a page
// add up. Series of versions that have been gone for an hour leave the page (departed.go).
//
// # Traces
//
// A sampled request has a tree of spans. Its root begins with the request, and all others are made from measured times
// once it has ended. A batch has one span, linked with its sampled requests in both directions. Requests that are not
// sampled cost next to nothing if the sampler goes by chance alone: it is then decided before there is a span
// (trace.go, tracegrpc.go, traceweb.go).
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// Models are the models that telemetry observes and whose answers it measures.
type Models interface {
	// Snapshot returns every known model. It must not block: it is asked for with every batch.
	Snapshot() *catalog.Snapshot
	// Predict runs the call, as predict.Models has it.
	Predict(ctx context.Context, call *catalog.Call) error
}

// Scheduler shows how long the queues are and the names of versions that are not ready yet.
type Scheduler interface {
	// State returns a snapshot that the caller owns. It may wait for the scheduler's lock.
	State() sharedsched.State
	// Epoch is when its clock began.
	Epoch() time.Time
	// VersionName returns the name that a version was added with, "" for one that is gone. It may wait for the
	// scheduler's lock.
	VersionName(sharedsched.VersionID) string
}

// Config holds the settings of a Telemetry.
type Config struct {
	// Version is the program's own, for traces and metrics, and Revision its commit, "" if that is not known.
	Version, Revision string
	// Slot returns the name of the traffic entry that leads to a version of m, "" for none. Required.
	Slot func(m *catalog.Model, v *catalog.Version) string
	// Runtime has the page show all metrics of the Go runtime, such as how long goroutines wait for a processor.
	Runtime bool
	// Logger gets exports that fail. Nil: slog.Default().
	Logger *slog.Logger
}

// Telemetry measures. It implements shell.Observer. Its methods are safe for concurrent use, and the ones that
// observe neither block nor, once they have seen a version, allocate.
type Telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	meter    metric.Meter
	traces   *Traces // nil: nothing is traced

	instruments
	versions versions
	requests requests
	departed atomic.Pointer[departed] // nil: Watch was not called yet
}

// maxSeries bounds the label combinations of one metric. Further ones are counted together, labelled
// otel_metric_overflow. All labels have bounded values, so that only very many models come near.
const maxSeries = 20_000

// New prepares metrics, and exporters as the environment asks for them. Watch comes next. The error says which variable
// asks for something that cannot be done.
func New(ctx context.Context, cfg Config) (_ *Telemetry, err error) {
	t := &Telemetry{registry: prometheus.NewRegistry(), versions: versions{slot: cfg.Slot}}
	runtime := collectors.NewGoCollector()
	if cfg.Runtime {
		runtime = collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll))
	}
	// The collectors of the Prometheus library have names that dashboards expect.
	t.registry.MustRegister(runtime,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	aggregation, err := histograms()
	if err != nil {
		return nil, err
	}
	// The page and the exporters are readers of the same instruments.
	page, err := prometheusexporter.New(
		prometheusexporter.WithAggregationSelector(aggregation),
		prometheusexporter.WithRegisterer(t.registry),
		// A name below is the name on the page: no suffixes for units and counters are added, no labels of the
		// library's own.
		prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes),
		prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	identity, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "weft"),
			attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv(), // last, so that it wins
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if t.traces, err = tracesWanted(ctx, identity); err != nil {
		return nil, err
	}
	options := []sdkmetric.Option{
		sdkmetric.WithReader(page), sdkmetric.WithResource(identity), sdkmetric.WithCardinalityLimit(maxSeries),
		sdkmetric.WithExemplarFilter(t.examples()),
	}
	exported, err := metricExporter(ctx)
	if err != nil {
		return nil, errors.Join(err, t.endTraces(ctx))
	}
	if exported != nil {
		options = append(options, sdkmetric.WithReader(exported))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	// The handler is the whole process's: without exports it stays the library's.
	if exported != nil || t.traces != nil {
		reportFailures(cfg.Logger)
	}
	t.meter = t.meters.Meter(scope)
	if t.instruments, err = newInstruments(t.meter); err == nil {
		err = showBuild(ctx, t.meter, cfg)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), t.Shutdown(ctx))
	}
	return t, nil
}

// Watch sets the models and the scheduler that are observed, once and before the first batch. It returns m with its
// answers measured.
func (t *Telemetry) Watch(m Models, s Scheduler) (Models, error) {
	// Events come only after Watch, so that these fields need no lock.
	t.versions.watch(m, s)
	if t.traces != nil {
		t.traces.epoch = s.Epoch()
	}
	gone := &departed{models: m}
	t.departed.Store(gone)
	if err := t.requests.observe(&observed{meter: t.meter}, gone); err != nil {
		return nil, err
	}
	if err := t.observe(m, s); err != nil {
		return nil, err
	}
	return &watched{Models: m, telemetry: t}, nil
}

// Shutdown sends the metrics and spans that were not exported yet, until ctx ends. Nothing is measured afterwards.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	return errors.Join(t.endTraces(ctx), t.meters.Shutdown(ctx))
}

// endTraces shuts the traces down, if there are any.
func (t *Telemetry) endTraces(ctx context.Context) error {
	if t.traces == nil {
		return nil
	}
	return t.traces.shutdown(ctx)
}

// showBuild sets the metric whose labels say which release this is. Its value is always 1.
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

// RequestDenied counts a request that was denied, or refused by a quota. The identity is one of the access file, and
// the reason one of few constants.
func (t *Telemetry) RequestDenied(identity, reason string) {
	t.denied.Add(context.Background(), 1,
		metric.WithAttributes(attribute.String("identity", identity), attribute.String("reason", reason)))
}
