package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

// histogramVariable is the standard variable that says how exporters keep histograms. The page follows it, too.
const histogramVariable = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"

// exponential histograms have up to maxBuckets buckets, each at least 2^(1/256) times as wide as the one before. If
// those do not suffice, neighbours are joined. They take a twentieth of the room of explicit buckets on the page, and
// are finer.
var exponential = sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: maxBuckets, MaxScale: 8}

// maxBuckets is the default of OTLP exporters.
const maxBuckets = 160

// histograms returns how the page keeps histograms: with the bounds of instruments.go, or with exponential buckets,
// which Prometheus calls native histograms. A reader that does not ask for the format of those sees only their count
// and sum.
func histograms() (sdkmetric.AggregationSelector, error) {
	switch value := os.Getenv(histogramVariable); strings.ToLower(value) {
	case "", "explicit_bucket_histogram":
		return sdkmetric.DefaultAggregationSelector, nil
	case "base2_exponential_bucket_histogram":
		return func(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
			if kind == sdkmetric.InstrumentKindHistogram {
				return exponential
			}
			return sdkmetric.DefaultAggregationSelector(kind)
		}, nil
	default:
		return nil, fmt.Errorf("telemetry: %s=%q: it may be explicit_bucket_histogram or "+
			"base2_exponential_bucket_histogram", histogramVariable, value)
	}
}

// examples says which measurements are kept as exemplars of their bucket: those within a sampled trace, so that they
// lead to it. Without traces there are none.
func (t *Telemetry) examples() exemplar.Filter {
	if t.traces == nil {
		return exemplar.AlwaysOffFilter
	}
	return func(ctx context.Context) bool {
		return ctx != context.Background() && exemplar.TraceBasedFilter(ctx) // as calls that are not sampled have it
	}
}

// MetricsHandler serves the metrics for Prometheus: as text, in OpenMetrics, which has exemplars, or as protocol
// buffers, which have native histograms, as the request asks.
func (t *Telemetry) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(t.gather), promhttp.HandlerOpts{EnableOpenMetrics: true})
}
