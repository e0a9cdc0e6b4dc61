package telemetry_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/server/predict"
)

const histogramVariable = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"

// fetch returns the page as a reader gets it who accepts that.
func fetch(tel *telemetry.Telemetry, accept string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, request)
	return rec
}

// duration returns the histogram of durations as Prometheus reads it with native histograms on.
func duration(t *testing.T, tel *telemetry.Telemetry) *dto.Histogram {
	t.Helper()
	in := bufio.NewReader(fetch(tel,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited").Body)
	for {
		var f dto.MetricFamily
		if err := protodelim.UnmarshalFrom(in, &f); err != nil {
			t.Fatal("no durations on the page: ", err)
		}
		if f.GetName() == "weft_request_duration_seconds" {
			return f.GetMetric()[0].GetHistogram()
		}
	}
}

var answered = &predict.Event{
	Model: "walker", Version: 3, Code: "OK", Duration: 3 * time.Millisecond, TraceID: "000000000000000000000000000000ab",
}

func TestHistogramsAreNativeWhereAsked(t *testing.T) {
	for value, native := range map[string]bool{
		"": false, "explicit_bucket_histogram": false, "base2_exponential_bucket_histogram": true,
	} {
		t.Run(value, func(t *testing.T) {
			t.Setenv(histogramVariable, value)
			tel, _ := start(t, newHouse())
			for range 2 {
				tel.RequestDone(t.Context(), answered)
			}
			h := duration(t, tel)
			if h.GetSampleCount() != 2 || h.GetSampleSum() != 0.006 {
				t.Errorf("%d durations of %v s", h.GetSampleCount(), h.GetSampleSum())
			}
			if native != (len(h.GetPositiveSpan()) > 0) || native != (len(h.GetBucket()) == 0) {
				t.Errorf("native buckets %v, classic %v", h.GetPositiveSpan(), h.GetBucket())
			}
			if native && h.GetSchema() != 8 {
				t.Errorf("schema %d, want the finest", h.GetSchema())
			}
		})
	}
}

func TestUnknownHistogramsAreRefused(t *testing.T) {
	t.Setenv(histogramVariable, "quantiles")
	_, err := telemetry.New(t.Context(), telemetry.Config{Slot: slot})
	if err == nil || !strings.Contains(err.Error(), histogramVariable+`="quantiles"`) ||
		!strings.Contains(err.Error(), "base2_exponential_bucket_histogram") {
		t.Errorf("error %v", err)
	}
}

// sampled returns a context inside a trace.
func sampled(ctx context.Context, flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 0xab}, SpanID: trace.SpanID{7: 0xcd}, TraceFlags: flags,
	}))
}

// TestDurationsLeadToTraces where traces are exported and the request's is sampled.
func TestDurationsLeadToTraces(t *testing.T) {
	const example = `trace_id="000000000000000000000000000000ab"`
	for name, tt := range map[string]struct {
		exported bool
		flags    trace.TraceFlags
		want     bool
	}{
		"exported and sampled": {true, trace.FlagsSampled, true},
		"not sampled":          {true, 0, false},
		"not exported":         {false, trace.FlagsSampled, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.exported {
				startCollector(t)
			}
			tel, _ := start(t, newHouse())
			tel.RequestDone(sampled(t.Context(), tt.flags), answered)
			page := fetch(tel, "application/openmetrics-text;version=1.0.0").Body.String()
			if !strings.HasSuffix(page, "# EOF\n") {
				t.Fatalf("no page in OpenMetrics: %s", page)
			}
			if got := strings.Contains(page, example); got != tt.want {
				t.Errorf("the page has the example: %v, want %v:\n%s", got, tt.want, page)
			}
			if strings.Contains(string(text(t, tel)), "trace_id") {
				t.Error("text for readers that know no examples has some")
			}
		})
	}
}
