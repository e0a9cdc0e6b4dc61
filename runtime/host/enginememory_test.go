package host_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// own is an engine's own memory.
type own struct {
	tensor.SystemMemory

	mu  sync.Mutex
	all map[*byte]int // guarded by mu: sizes
}

func (l *own) Allocate(size int) ([]byte, error) {
	memory, err := l.SystemMemory.Allocate(size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[unsafe.SliceData(memory)] = len(memory)
	return memory, err
}

func (l *own) Free(memory []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, unsafe.SliceData(memory))
	l.SystemMemory.Free(memory)
}

func (l *own) has(t tensor.Tensor) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[unsafe.SliceData(t.Data)] >= len(t.Data)
}

// An engine computes on the memory that it gave, for as long as the version is there.
func TestBuffersAreTheEnginesOwn(t *testing.T) {
	w := newWorld(t, 1)
	f, l := perRow(1, double), &own{all: map[*byte]int{}}
	f.Opened.Memory = l
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		err := run(b)
		if !l.has(b.Inputs[0]) || !l.has(b.Outputs[0]) {
			t.Error("a run got other memory")
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
		t.Errorf("%d pieces of memory were not given back", len(l.all))
	}
}

func TestGraphsArePublished(t *testing.T) {
	w := newWorld(t, 1)
	f := perRow(1, double)
	f.Known.Graphs = engine.Graphs{Known: true, Replayed: 7, Eager: 3, Failures: 2}
	w.add("a", 1, f, nil)
	w.add("b", 1, perRow(1, double), nil)
	v := w.load("a")
	if l := v.Live(); l.Replayed != 7 || l.Eager != 3 || l.GraphFailures != 2 {
		t.Errorf("counted %+v; want what the engine tells", l)
	}
	if l := w.version("b", 1).Live(); l.Replayed+l.Eager+l.GraphFailures > 0 {
		t.Errorf("an engine without graphs counts %+v", l)
	}
}
