package execution

import (
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestPoolGivesItsMemoryBack(t *testing.T) {
	p := pool{inputs: 1, outputs: 1, most: 2}
	var used [4]*buffers
	for i := range used {
		used[i] = p.take()
		used[i].batch.Input(0, tensor.Uint8, tensor.Shape{10000}, 10000)
		used[i].parts = append(used[i].parts, part{job: &Job{}})
	}
	for i, b := range used[:3] {
		p.give(b)
		if kept, want := b.batch.Cap() > 0, i < 2; kept != want {
			t.Errorf("buffers %d kept: %v, want %v: there are two lanes", i, kept, want)
		}
		if parts := b.parts[:1]; parts[0].job != nil {
			t.Errorf("buffers %d refer to a request", i)
		}
	}
	if again := p.take(); again != used[1] {
		t.Error("kept buffers were not used again")
	} else {
		p.give(again)
	}
	p.close()
	p.give(used[3]) // of a run that ends late
	for i, b := range used {
		if b.batch.Cap() > 0 {
			t.Errorf("buffers %d hold %d bytes after close", i, b.batch.Cap())
		}
	}
}

// TestPoolTrims: what is not in use is given back, and the pool goes on.
func TestPoolTrims(t *testing.T) {
	p := pool{inputs: 1, outputs: 1, most: 2}
	ended, running := p.take(), p.take()
	for _, b := range []*buffers{ended, running} {
		b.batch.Input(0, tensor.Uint8, tensor.Shape{10000}, 10000)
	}
	p.give(ended)
	p.trim()
	if ended.batch.Cap() > 0 || running.batch.Cap() == 0 {
		t.Errorf("after a trim ended buffers hold %d bytes, running ones %d", ended.batch.Cap(), running.batch.Cap())
	}
	if p.give(running); running.batch.Cap() == 0 || p.take() != running {
		t.Error("buffers that were in use are not kept")
	}
	running.batch.Free()
}
