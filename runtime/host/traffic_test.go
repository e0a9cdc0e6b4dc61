package host_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// split is a traffic of slots a, b, ... that lead to the versions in equal parts.
func split(versions ...int64) *catalog.Traffic {
	t := &catalog.Traffic{}
	for i, n := range versions {
		t.Split = append(t.Split, catalog.Slot{Name: string(rune('a' + i)), Version: n, Weight: 1})
	}
	return t
}

// stated is the same as a manifest says it.
func stated(versions ...int64) *modelrepo.Traffic {
	t := &modelrepo.Traffic{}
	for _, s := range split(versions...).Split {
		t.Split = append(t.Split, modelrepo.SplitEntry{Slot: s.Name, Version: s.Version, Weight: s.Weight})
	}
	return t
}

// divided returns the versions of a published split.
func divided(t *catalog.Traffic) []int64 {
	if t == nil {
		return nil
	}
	var all []int64
	for _, s := range t.Split {
		all = append(all, s.Version)
	}
	return all
}

func (w *world) divided(want ...int64) {
	w.t.Helper()
	if diff := cmp.Diff(want, divided(w.Snapshot().Model("m").Traffic)); diff != "" {
		w.t.Errorf("split among versions (-want +got):\n%s", diff)
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestCompareAndSetHasOneWinner: of changes based on the same revision one is made.
func TestCompareAndSetHasOneWinner(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), nil)
	w.load("m")
	base, err := w.SetTraffic("m", split(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	won := make(chan uint64, 8)
	for range cap(won) {
		callers.Go(func() {
			if now, err := w.SetTraffic("m", split(1, 1), base.Revision); err == nil {
				won <- now.Revision
			}
		})
	}
	callers.Wait()
	if len(won) != 1 {
		t.Errorf("%d of %d changes were made", len(won), cap(won))
	}
}
