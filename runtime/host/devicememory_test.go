package host_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// hungry is a session whose runs take 1000 bytes for each two rows, begun ones too, beside 1 MiB of weights, and which holds twice
// what it ever took.
type hungry struct {
	*fake
	peak atomic.Int64
}

func (h *hungry) Run(b *tensor.Batch) error {
	if took := 1<<20 + (b.Inputs[0].Shape[0]+1)/2*1000; took > h.peak.Load() {
		h.peak.Store(took)
	}
	return h.fake.Run(b)
}

func (h *hungry) DeviceMemory() (peak, reserved int64, err error) {
	return h.peak.Load(), 2 * h.peak.Load(), nil
}

// TestMemoryOfRows: the scheduler is told what device memory a further row took at most while batches were tried, and callers what
// the version holds.
func TestMemoryOfRows(t *testing.T) {
	b := newBench(t, times(2), patient)
	h := &hungry{fake: times(2)}
	b.add("hungry", 1, func(context.Context) (host.Opened, error) {
		return host.Opened{Session: h, Device: "dev", Provider: "fake"}, nil
	}, func(m *modelrepo.Manifest) { m.Batching.AllowedBatchSizes = []int{1, 2, 3, 4, 8} })
	v := b.load("hungry")
	if got := b.sched.settings.RowMemory; got != 1000 { // the third row's; two rows take 500 each
		t.Errorf("a further row takes %d bytes, want 1000", got)
	}
	if got, want := v.Replicas[0].Memory, int64(2*(1<<20+4000)); got != want {
		t.Errorf("it holds %d bytes, want %d", got, want)
	}
}
