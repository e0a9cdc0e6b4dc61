package sharedsched

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAgainstSortedList compares the ring with the obvious implementation over random operations.
func TestRingAgainstSortedList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []entry
	for step := range 20000 {
		if len(want) == 0 || rng.IntN(10) < 4+2*(step/500%2) { // it grows, then it shrinks
			o := order{Target: int64(step + rng.IntN(30)), Seq: uint64(step), Rank: uint8(rng.IntN(20) / 19)}
			e := entry{order: o, Task: int32(step)}
			r.Insert(e)
			at, _ := slices.BinarySearchFunc(want, e, func(a, b entry) int {
				if a.Before(b.order) {
					return -1
				}
				return 1
			})
			want = slices.Insert(want, at, e)
		} else {
			at := max(0, rng.IntN(len(want)+10)-10) // the first one often
			r.Remove(want[at].order)
			want = slices.Delete(want, at, at+1)
		}
		if r.Len() != len(want) {
			t.Fatalf("step %d: %d tasks, want %d", step, r.Len(), len(want))
		}
		for i, e := range want {
			if *r.At(i) != e {
				t.Fatalf("step %d: task %d is %+v, want %+v", step, i, *r.At(i), e)
			}
		}
	}
}
