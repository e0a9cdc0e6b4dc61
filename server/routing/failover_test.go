package routing_test

import (
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// refusing allows all versions but these.
type refusing []int64

func (r refusing) Allow(_ string, version int64) bool { return !slices.Contains(r, version) }

func TestFailover(t *testing.T) {
	healthy := assign(t, weights(60, 30, 10))
	const few = 2000
	for _, tt := range []struct {
		name    string
		refused refusing
		states  [3]catalog.State // of the versions 1 to 3
		allowed string
	}{
		{"one is unfit", refusing{1}, [3]catalog.State{catalog.Ready, catalog.Ready, catalog.Ready}, "bc"},
		{"two are unfit", refusing{1, 3}, [3]catalog.State{catalog.Ready, catalog.Ready, catalog.Ready}, "b"},
		{"all are unfit", refusing{1, 2, 3}, [3]catalog.State{catalog.Ready, catalog.Ready, catalog.Ready}, "abc"},
		{"one is loading", nil, [3]catalog.State{catalog.Ready, catalog.Loading, catalog.Ready}, "ac"},
		{"one failed, one is unfit", refusing{3}, [3]catalog.State{catalog.Failed, catalog.Ready, catalog.Ready}, "b"},
		{"one is going, the others are unfit", refusing{1, 3}, [3]catalog.State{catalog.Ready, catalog.Unloading, catalog.Ready}, "ac"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serving(1, weights(60, 30, 10))
			for i, state := range tt.states {
				s.Models[0].Versions[i] = version("m", int64(i+1), state)
			}
			r := routing.NewRouter(routing.Config{Health: tt.refused})
			count := map[string]int{}
			for i := range few {
				route := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)})
				count[route.Slot]++
				wanted := int64(healthy[i][0]-'a') + 1
				switch {
				case route.Version.Number == wanted && route.FailedOverFrom != 0:
					t.Fatalf("version %d stands in for %d, itself", wanted, route.FailedOverFrom)
				case route.Version.Number != wanted && route.FailedOverFrom != wanted:
					t.Fatalf("%d answers for %d, but FailedOverFrom is %d", route.Version.Number, wanted, route.FailedOverFrom)
				case slices.Contains([]byte(tt.allowed), healthy[i][0]) && route.Slot != healthy[i]:
					t.Fatalf("slot %s stands in for %s, which is fit", route.Slot, healthy[i])
				}
				if again := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)}); !again.Pinned ||
					again.Version != route.Version || again.FailedOverFrom != route.FailedOverFrom || again.Slot != route.Slot {
					t.Fatalf("first %+v, then %+v", route, again)
				}
			}
			for slot := range count {
				if !slices.Contains([]byte(tt.allowed), slot[0]) {
					t.Errorf("slot %s took %d episodes", slot, count[slot])
				}
			}
			if len(count) != len(tt.allowed) {
				t.Errorf("slots %v answered, want each of %q", count, tt.allowed)
			}
		})
	}
}

// TestFailoverSpreads: what an unfit version leaves behind is divided as the weights of the others are.
func TestFailoverSpreads(t *testing.T) {
	r, s, count, failedOver := routing.NewRouter(routing.Config{Health: refusing{1}}), serving(1, weights(60, 30, 10)), 0, 0
	for i := range manyEpisodes {
		if route := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)}); route.FailedOverFrom == 1 {
			failedOver++
			if route.Slot == "b" {
				count++
			}
		}
	}
	wantShare(t, "failed over", failedOver, manyEpisodes, 0.6)
	wantShare(t, "failed over to b", count, failedOver, 0.75)
}

// TestOrderDecidesNoTie: weights too small to be told apart beside a great one are still taken by name.
func TestOrderDecidesNoTie(t *testing.T) {
	slots := weights(1e308, 1e-20, 1e-20)
	for range 2 {
		r := routing.NewRouter(routing.Config{Health: refusing{1}})
		if route := mustRoute(t, r, serving(1, slots), routing.Request{}); route.Slot != "b" {
			t.Errorf("of %v slot %s answers, want b", slots, route.Slot)
		}
		slices.Reverse(slots)
	}
}

func TestClosedSlotStandsInForNobody(t *testing.T) {
	r := routing.NewRouter(routing.Config{Health: refusing{1}})
	if route := mustRoute(t, r, serving(1, weights(1, 0)), routing.Request{Episode: "e"}); route.Version.Number != 1 {
		t.Errorf("version %d answers, whose weight is 0", route.Version.Number)
	}
}

func TestNoneOfTheSplitIsReady(t *testing.T) {
	for _, tt := range []struct {
		name   string
		split  []catalog.Slot
		states []catalog.State
		want   string
	}{
		{"loading", weights(1, 1), []catalog.State{catalog.Failed, catalog.Loading, catalog.Ready}, `model "m" version 2 is loading; try again`},
		{"failed", weights(1, 1), []catalog.State{catalog.Failed, catalog.Failed, catalog.Ready}, `model "m" version 2 failed to load: cause 2`},
		{"gone", []catalog.Slot{{Name: "a", Version: 8, Weight: 1}}, []catalog.State{catalog.Ready}, `the traffic of model "m" names version 8, which is not there; there is 1 (change the traffic, or versions.policy in model.yaml)`},
		{"not split, none ready", nil, []catalog.State{catalog.Loading}, `model "m" version 1 is loading; try again`},
	} {
		m := model("m", nil, tt.states...)
		m.Traffic = &catalog.Traffic{Split: tt.split}
		s := &catalog.Snapshot{Revision: 1, Models: []*catalog.Model{m}}
		r := routing.NewRouter(routing.Config{})
		if route, err := r.Route(s, routing.Request{Model: "m", Episode: "e"}); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %+v, %v, want %s", tt.name, route, err, tt.want)
		}
		if r.Episodes() != 0 {
			t.Errorf("%s: an episode without version is running", tt.name)
		}
	}
}
