package tensor_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	for size := 1 << 10; size <= 4<<20; size += 1 + size/7 {
		if got := cap(*r.Get(size)); got > max(2<<10, size+size/4) {
			t.Errorf("memory of %d bytes for %d", got, size)
		}
	}
}

func TestRecyclerRecycles(t *testing.T) {
	var r tensor.Recycler
	for _, size := range []int{5000, 500_000} {
		if n := testing.AllocsPerRun(100, func() { r.Put(r.Get(size)) }); n > 0.5 {
			t.Errorf("%v pieces of %d bytes were allocated for one that was put back", n, size)
		}
	}
}

// Large pieces that nobody uses any more are dropped, and the ones that are used are not.
func TestRecyclerDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r tensor.Recycler
		const size = 1 << 20
		inUse := func(n int) (fresh int) {
			var pieces []*[]byte
			for range n {
				data := r.Get(size)
				if (*data)[0] == 0 {
					fresh++
				}
				(*data)[0] = 1
				pieces = append(pieces, data)
			}
			for _, data := range pieces {
				r.Put(data)
			}
			return fresh
		}
		if fresh := inUse(8); fresh != 8 {
			t.Fatalf("%d pieces are new, want 8", fresh)
		}
		for range 10 {
			time.Sleep(700 * time.Millisecond)
			if fresh := inUse(3); fresh != 0 {
				t.Fatalf("%d pieces are new, though 3 are used all the time", fresh)
			}
		}
		if fresh := inUse(8); fresh != 5 {
			t.Errorf("%d pieces are new, want those 5 that were not used for seconds", fresh)
		}
		time.Sleep(5 * time.Second)
		if fresh := inUse(1); fresh != 1 {
			t.Error("a piece was kept for seconds without use")
		}
		time.Sleep(5 * time.Second)
	})
}

// What nobody uses is bounded, however much was used at once.
func TestRecyclerIsBounded(t *testing.T) {
	var r tensor.Recycler
	const size, used, kept = 16 << 20, 20, 8
	var pieces []*[]byte
	for range used {
		pieces = append(pieces, r.Get(size))
	}
	var all sync.WaitGroup
	for _, data := range pieces {
		all.Go(func() {
			(*data)[0] = 1
			r.Put(data)
		})
	}
	all.Wait()
	again := 0
	for range used {
		again += int((*r.Get(size))[0])
	}
	if again != kept {
		t.Errorf("%d pieces were kept, want %d", again, kept)
	}
}
