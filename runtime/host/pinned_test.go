package host_test

import (
	"context"
	"sync"
	"testing"
	"unsafe"

	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
)

// locked is the memory that is pinned.
type locked struct {
	mu  sync.Mutex
	all map[*byte]int // guarded by mu: sizes
}

func (l *locked) Pin(memory []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[unsafe.SliceData(memory)] = len(memory)
}

func (l *locked) Unpin(memory []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, unsafe.SliceData(memory))
}

func (l *locked) has(t tensor.Tensor) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[unsafe.SliceData(t.Data)] >= len(t.Data)
}

// What an engine computes on is pinned as it asked, for as long as the version is there.
func TestBuffersArePinned(t *testing.T) {
	w := newWorld(t, 1)
	f, l := perRow(1, double), &locked{all: map[*byte]int{}}
	f.opened.Pinner = l
	run := f.run
	f.run = func(b *tensor.Batch) error {
		err := run(b)
		if !l.has(b.Inputs[0]) || !l.has(b.Outputs[0]) {
			t.Error("a run got memory that is not pinned")
		}
		return err
	}
	w.add("a", 1, f, nil)
	v := w.load("a")
	if err := w.Predict(t.Context(), ask(v, 2, 1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Unload(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	if len(l.all) != 0 {
		t.Errorf("%d pieces of memory stayed pinned", len(l.all))
	}
}

// counted is an engine that tells how its runs were executed.
type counted struct{ *fake }

func (counted) Graphs() (replayed, eager uint64) { return 7, 3 }
func (counted) GraphFailures() uint64            { return 2 }

func TestGraphsArePublished(t *testing.T) {
	w := newWorld(t, 1)
	w.add("a", 1, func(context.Context) (host.Opened, error) {
		return host.Opened{Session: counted{perRow(1, double)}, Device: "dev", Provider: "fake"}, nil
	}, nil)
	w.add("b", 1, perRow(1, double), nil)
	v := w.load("a")
	if replayed, eager := v.Graphs(); replayed != 7 || eager != 3 || v.GraphFailures() != 2 {
		t.Errorf("%d replayed, %d eager, %d failures; want what the engine tells", replayed, eager, v.GraphFailures())
	}
	if b := w.version("b", 1); b.Graphs != nil || b.GraphFailures != nil {
		t.Error("an engine without graphs tells of them")
	}
}
