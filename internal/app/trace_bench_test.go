package app

import (
	"context"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// nowhere is an exporter that drops what is sent.
type nowhere struct{}

// ExportSpans implements sdktrace.SpanExporter.
func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

// Shutdown implements sdktrace.SpanExporter.
func (nowhere) Shutdown(context.Context) error { return nil }

// BenchmarkTracedRequests shows what traces cost a unary request by itself: in processor time of client and server, so
// that the differences are what counts.
func BenchmarkTracedRequests(b *testing.B) {
	for _, c := range []struct{ name, exporter, ratio string }{
		{"off", "none", ""}, {"one_percent", "nowhere", "0.01"}, {"all", "nowhere", "1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			registerExporters()
			b.Setenv("OTEL_TRACES_EXPORTER", c.exporter)
			b.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			b.Setenv("OTEL_TRACES_SAMPLER_ARG", c.ratio)
			repository := b.TempDir()
			weftest.AddVersion(b, repository, "walker", 1)
			weftest.SetManifest(b, repository, "walker", quick+"\nbatching: {audit: 0}\n")
			r := serveFrom(b, repository, nil)
			r.awaitReady(b)
			client, q := weftv1.NewPredictionServiceClient(r.conn), weftest.Request("walker", 1)
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if _, err := client.Predict(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what this process has taken so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
