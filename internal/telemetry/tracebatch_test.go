package telemetry

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// recorded returns traces whose spans the recorder keeps.
func recorded(t *testing.T, sampler sdktrace.Sampler) (*Traces, *tracetest.SpanRecorder) {
	t.Helper()
	kept := tracetest.NewSpanRecorder()
	traces := newTraces(kept, sdktrace.WithSampler(sampler))
	traces.epoch = time.Now()
	return traces, kept
}

// batchOf has a batch end.
func batchOf(t *Traces, number uint64, tasks int) {
	t.batchDone(&sharedsched.BatchEvent{BatchStart: sharedsched.BatchStart{Number: number}, Tasks: tasks})
}

// TestBatchesAreForgotten: the span of a batch ends when it has lingered, with the batch that takes its place, or with
// the server. Batches none of whose requests is sampled have none.
func TestBatchesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traces, kept := recorded(t, sdktrace.AlwaysSample())
		_, one := traces.Begin(t.Context(), &predict.Request{})
		sampled := one.(*Trace)
		back := func(number uint64) {
			traces.cameBack(sampled, &catalog.Call{
				Version: &catalog.Version{Model: "walker"}, Outcome: sharedsched.Outcome{Batch: number},
			})
		}
		want := func(n, links int) {
			t.Helper()
			ended := kept.Ended()
			if len(ended) != n || n > 0 && len(ended[n-1].Links()) != links {
				t.Fatalf("%d spans %v, want %d, and the last with %d links", len(ended), ended, n, links)
			}
		}
		back(1) // before there is any
		for number := range uint64(4) {
			batchOf(traces, number+1, 2)
		}
		back(1)
		back(1)
		want(0, 0)
		time.Sleep(linger)
		synctest.Wait()
		want(1, 2)
		back(1) // it is over
		back(2)
		batchOf(traces, 2+rememberedBatches, 1)
		want(2, 1)
		back(2) // it is gone
		back(3)
		traces.closeBatches()
		want(3, 1)
		time.Sleep(linger)
		synctest.Wait()
		want(3, 1)
		if n := len(traces.batches.ring); n != rememberedBatches {
			t.Errorf("%d batches are remembered", n)
		}
	})
}

// TestAFullBatch: the span of a batch of 512 sampled requests links to each of them, and says which process it ran in.
func TestAFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traces, kept := recorded(t, sdktrace.AlwaysSample())
		const tasks, pid = 512, 4711
		batchOf(traces, 1, tasks)
		linked := map[trace.SpanID]bool{}
		for range tasks {
			_, begun := traces.Begin(t.Context(), &predict.Request{})
			one := begun.(*Trace)
			traces.cameBack(one, &catalog.Call{
				Version: &catalog.Version{}, Outcome: sharedsched.Outcome{Batch: 1}, Phases: catalog.Phases{Process: pid},
			})
			linked[one.root.SpanContext().SpanID()] = true
		}
		time.Sleep(linger)
		synctest.Wait()
		span := kept.Ended()[0]
		for _, l := range span.Links() {
			delete(linked, l.SpanContext.SpanID())
		}
		if len(linked) > 0 || !slices.Contains(span.Attributes(), workerKey.Int(pid)) {
			t.Errorf("the span of the batch lacks links to %d requests, and has %v", len(linked), span.Attributes())
		}
	})
}

// TestParentsThatCannotBe are none: one of several, and one that is none of W3C's.
func TestParentsThatCannotBe(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, came := range [][]string{{parent, parent}, {"ff" + parent[2:]}, {"00-4bf9"}, {""}} {
		traces, kept := recorded(t, sdktrace.ParentBased(sdktrace.NeverSample()))
		ctx := traces.Came(t.Context(), "/a.B/C", metadata.MD{"traceparent": came}, true)
		if _, one := traces.Begin(ctx, &predict.Request{Stream: true}); one != nil || len(kept.Started()) > 0 {
			t.Errorf("%q is taken for a parent", came)
		}
	}
	traces, _ := recorded(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	ctx := traces.Came(t.Context(), "/a.B/C", metadata.MD{"traceparent": {parent}}, true)
	if _, one := traces.Begin(ctx, &predict.Request{Stream: true}); one == nil || one.ID() != parent[3:35] {
		t.Errorf("%v is the trace of %q", one, parent)
	}
}
