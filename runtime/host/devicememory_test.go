package host_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// hungry is a session whose runs take 1000 bytes for each two rows of one element, begun ones too, besides 1 MiB of
// weights, and which holds twice as much as it ever took.
type hungry struct {
	*fake
	peak atomic.Int64
}

func (h *hungry) Run(ctx context.Context, b *tensor.Batch) error {
	if took := 1<<20 + (b.Inputs[0].Shape[0]+1)/2*1000*b.Inputs[0].Shape[1]; took > h.peak.Load() {
		h.peak.Store(took)
	}
	return h.fake.Run(ctx, b)
}

func (h *hungry) Stats() engine.Stats {
	peak := h.peak.Load()
	return engine.Stats{Memory: engine.Memory{Known: true, Peak: peak, Held: 2 * peak}}
}

// TestMemoryOfRows: the scheduler learns how much device memory a further row took at most while batches were tried,
// and callers how much the version holds.
func TestMemoryOfRows(t *testing.T) {
	b := newBench(t, times(2), patient)
	h := &hungry{fake: times(2)}
	b.add("hungry", 1, func(context.Context) (engine.Opened, error) {
		return engine.Opened{Session: h, Device: "dev", Provider: "fake"}, nil
	}, func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = []int{1, 2, 3, 4, 8} })
	v := b.load("hungry")
	if got := b.sched.settings.RowMemory; got != 1000 { // the third row's; two rows take 500 each
		t.Errorf("a further row takes %d bytes, want 1000", got)
	}
	if got, want := v.Live().Memory[0], int64(2*(1<<20+4000)); got != want {
		t.Errorf("it holds %d bytes, want %d", got, want)
	}
	h.peak.Add(1 << 20)
	if got, want := v.Live().Memory[0], int64(2*(2<<20+4000)); got != want {
		t.Errorf("it has grown, and is said to hold %d bytes, want %d", got, want)
	}
	if b.load("m").Live().Memory[0] >= 0 {
		t.Error("an engine that does not tell is said to")
	}
}

// TestMemoryOfLongRows: of rows that are padded to several lengths, the longest take the most.
func TestMemoryOfLongRows(t *testing.T) {
	b := newBench(t, times(2), patient)
	b.add("long", 1, func(context.Context) (engine.Opened, error) {
		return engine.Opened{Session: &hungry{fake: eachRow(doubled)}, Device: "dev", Provider: "fake"}, nil
	}, buckets(4, 32))
	if v := b.load("long"); !v.Batching.Batched {
		t.Fatal(v.Batching.Reason)
	}
	if got := b.sched.settings.RowMemory; got != 16_000 { // half of the memory that two rows of 32 elements take
		t.Errorf("a further row takes %d bytes, want 16000", got)
	}
}

// TestMemoryStaysWithTheSession: a version that moves to another flow keeps its session, and so the device memory that
// this has taken; a version that takes its place has a new one.
func TestMemoryStaysWithTheSession(t *testing.T) {
	b := newBench(t, times(2), patient)
	b.edit("m", func(m *modelrepo.Manifest) { m.Weight = 3 })
	b.load("m")
	b.put("m", 1, times(3), "second")
	b.load("m")
	if diff := cmp.Diff([]bool{true, false}, b.sched.moved); diff != "" {
		t.Errorf("whether the scheduler was told that it is the same version, moved, and then replaced (-want "+
			"+got):\n%s", diff)
	}
}
