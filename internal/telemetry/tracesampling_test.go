package telemetry

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/server/predict"
)

// TestSampling: of calls, of requests on a stream and of requests of HTTP a part is sampled, and of those with a parent
// what that says.
func TestSampling(t *testing.T) {
	race.Skip(t, "one goroutine")
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
	for _, part := range []float64{0, 0.25, 1} {
		for _, came := range []struct {
			parent string
			want   float64
		}{{"", part}, {parent + "1", 1}, {parent + "0", 0}} {
			traces, _ := recorded(t, sdktrace.ParentBased(sdktrace.TraceIDRatioBased(part)))
			traces.roots = part
			web := (&Telemetry{traces: traces}).TraceWeb(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, one := traces.Begin(r.Context(), &predict.Request{}); one != nil {
					r.Header.Set("sampled", "yes")
				}
			}))
			header := metadata.MD{}
			if came.parent != "" {
				header.Set("traceparent", came.parent)
			}
			const n = 4000
			sampled := map[string]float64{}
			for range n {
				if _, one := traces.Begin(traces.Came(t.Context(), "/a.B/C", header, false), &predict.Request{}); one != nil {
					sampled["calls"] += 1. / n
				}
				ctx := traces.Came(t.Context(), "/a.B/S", header, true)
				if _, one := traces.Begin(ctx, &predict.Request{Stream: true}); one != nil {
					sampled["requests on streams"] += 1. / n
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/x/infer", http.NoBody)
				r.Header.Set("traceparent", came.parent)
				web.ServeHTTP(httptest.NewRecorder(), r)
				if r.Header.Get("sampled") != "" {
					sampled["requests of HTTP"] += 1. / n
				}
			}
			for _, what := range []string{"calls", "requests on streams", "requests of HTTP"} {
				if math.Abs(sampled[what]-came.want) > 0.05 {
					t.Errorf("of %s with the parent %q %v are sampled, want %v", what, came.parent, sampled[what], came.want)
				}
			}
		}
	}
}
