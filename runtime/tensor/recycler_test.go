package tensor_test

import (
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestRecycler: what Get returns has the size asked for, whatever was put, and large memory is used again.
func TestRecycler(t *testing.T) {
	var r tensor.Recycler
	for _, size := range []int{0, 1, 511, 512, 1023, 1024, 1025, 600 << 10, 64<<20 + 1} {
		data := r.Get(size)
		if len(*data) != size {
			t.Errorf("%d bytes, want %d", len(*data), size)
		}
		*data = (*data)[:size/2]
		r.Put(data)
		if again := r.Get(size); len(*again) != size {
			t.Errorf("%d bytes of what was put, want %d", len(*again), size)
		}
	}
	foreign := make([]byte, 3000, 3001)
	r.Put(&foreign)
	if got := r.Get(2049); cap(*got) != 2560 {
		t.Errorf("memory of %d bytes, want 2560", cap(*got))
	}
	for size := 1 << 10; size <= 64<<20; size += 1 + size/37 {
		if got := cap(*r.Get(size)); got > max(2<<10, size+size/4) {
			t.Errorf("memory of %d bytes for %d", got, size)
		}
	}
}

func TestRecyclerRecycles(t *testing.T) {
	var r tensor.Recycler
	if n := testing.AllocsPerRun(100, func() { r.Put(r.Get(5000)) }); n > 0.5 {
		t.Errorf("%v pieces of memory were allocated for one that was put back", n)
	}
}
