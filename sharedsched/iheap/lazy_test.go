package iheap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLazyAgainstLinearScan compares the lazy heap with the obvious implementation over random operations.
func TestLazyAgainstLinearScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Lazy
	want := map[uint64]int64{}
	stays := func(id uint64) bool { _, ok := want[id]; return ok }
	swept := 0
	var in []uint64
	for step := range uint64(10000) {
		if len(in) == 0 || rng.IntN(10) < 3+4*int(step/1000%2) { // it grows, then it shrinks
			want[step] = int64(rng.IntN(1000))
			h.Add(step, want[step])
			in = append(in, step)
		} else {
			i := rng.IntN(len(in))
			delete(want, in[i])
			in = slices.Delete(in, i, i+1)
			if h.Left() {
				h.Sweep(stays)
				swept++
			}
		}
		var best member
		found := false
		for id, key := range want {
			if m := (member{key, id}); !found || m.before(best) {
				best, found = m, true
			}
		}
		id, key, ok := h.Min()
		for ; ok && !stays(id); id, key, ok = h.Min() {
			h.Pop()
		}
		if ok != found || found && (id != best.id || key != best.key) {
			t.Fatalf("step %d: the least is %d with %d, %v, want %+v, %v", step, id, key, ok, best, found)
		}
		members := 0
		for range h.All() {
			members++
		}
		if members != len(want)+h.Gone() {
			t.Fatalf("step %d: %d members, %d of which have left; want %d that have not", step, members, h.Gone(),
				len(want))
		}
		for i := range h.members {
			if i > 0 && h.members[i].before(h.members[(i-1)/arity]) {
				t.Fatalf("step %d: member %d is before the one above it", step, i)
			}
		}
	}
	if swept < 5 {
		t.Errorf("it was swept %d times", swept)
	}
}
