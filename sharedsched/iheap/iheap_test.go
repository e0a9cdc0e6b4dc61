package iheap

import (
	"math/rand/v2"
	"testing"
)

// TestAgainstLinearScan compares the heap with the obvious implementation over random operations.
func TestAgainstLinearScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap
	want := map[int32]int64{}
	for step := range 20000 {
		id := int32(rng.IntN(40))
		switch rng.IntN(3) {
		case 0, 1:
			key := int64(rng.IntN(10))
			h.Set(id, key)
			want[id] = key
		case 2:
			h.Remove(id)
			delete(want, id)
		}
		if h.Len() != len(want) {
			t.Fatalf("step %d: Len() = %d, want %d", step, h.Len(), len(want))
		}
		var best item
		found := false
		for id, key := range want {
			if it := (item{key, id}); !found || it.less(best) {
				best, found = it, true
			}
			if !h.Has(id) {
				t.Fatalf("step %d: Has(%d) = false", step, id)
			}
		}
		gotID, gotKey, ok := h.Min()
		if ok != found || found && (gotID != best.id || gotKey != best.key) {
			t.Fatalf("step %d: Min() = %d, %d, %v, want %+v, %v", step, gotID, gotKey, ok, best, found)
		}
		second, has := item{}, false
		for id, key := range want {
			if it := (item{key, id}); it != best && (!has || it.less(second)) {
				second, has = it, true
			}
		}
		if gotID, gotKey, ok := h.Second(); ok != has || has && (gotID != second.id || gotKey != second.key) {
			t.Fatalf("step %d: Second() = %d, %d, %v, want %+v, %v", step, gotID, gotKey, ok, second, has)
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var h Heap
	for i := range int32(100) {
		h.Set(i, int64(i))
	}
	if n := testing.AllocsPerRun(100, func() {
		id, key, _ := h.Min()
		h.Remove(id)
		h.Set(id, key+100)
	}); n != 0 {
		t.Errorf("%v allocations per operation, want 0", n)
	}
}
