package routing_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// refusing allows all versions but these.
type refusing []int64

func (r refusing) Allow(_ string, version int64) bool { return !slices.Contains(r, version) }

func (r refusing) Fit(m string, version int64) bool { return r.Allow(m, version) }

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
		{
			"one is going, the others are unfit",
			refusing{1, 3},
			[3]catalog.State{catalog.Ready, catalog.Unloading, catalog.Ready},
			"ac",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serving(1, weights(60, 30, 10))
			for i, state := range tt.states {
				s.Model("m").Versions[i] = version("m", int64(i+1), state)
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
					t.Fatalf("%d answers for %d, but FailedOverFrom is %d", route.Version.Number, wanted,
						route.FailedOverFrom)
				case slices.Contains([]byte(tt.allowed), healthy[i][0]) && route.Slot != healthy[i]:
					t.Fatalf("slot %s stands in for %s, which is fit", route.Slot, healthy[i])
				}
				if again := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)}); !again.Pinned ||
					again.Version != route.Version || again.FailedOverFrom != route.FailedOverFrom ||
					again.Slot != route.Slot {
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

// TestFailoverSpreads: the share of an unfit version is divided as the weights of the others are.
func TestFailoverSpreads(t *testing.T) {
	r, s, count, failedOver := routing.NewRouter(routing.Config{Health: refusing{1}}), serving(1, weights(60, 30, 10)),
		0, 0
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

// TestOrderDecidesNoTie: slots whose weights are too small to be told apart next to a great one are still chosen by
// name.
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
		{
			"loading", weights(1, 1),
			[]catalog.State{catalog.Failed, catalog.Loading, catalog.Ready},
			`model "m" version 2 is loading; try again`,
		},
		{
			"failed", weights(1, 1),
			[]catalog.State{catalog.Failed, catalog.Failed, catalog.Ready},
			`model "m" version 2 failed to load: cause 2`,
		},
		{
			"gone",
			[]catalog.Slot{{Name: "a", Version: 8, Weight: 1}},
			[]catalog.State{catalog.Ready},
			`the traffic of model "m" names version 8, which is not there; there is 1 (change the traffic, or versions.policy in model.yaml)`,
		},
		{"not split, none ready", nil, []catalog.State{catalog.Loading}, `model "m" version 1 is loading; try again`},
	} {
		m := model("m", nil, tt.states...)
		m.Traffic = &catalog.Traffic{Split: tt.split}
		s := &catalog.Snapshot{Revision: 1, Models: catalog.ByName(m)}
		r := routing.NewRouter(routing.Config{})
		if route, err := r.Route(s, routing.Request{Model: "m", Episode: "e"}); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %+v, %v, want %s", tt.name, route, err, tt.want)
		}
		if r.Episodes() != 0 {
			t.Errorf("%s: an episode without version is running", tt.name)
		}
	}
}

// TestSlotsWithoutWeightAreTheLastResort: they answer when none with weight is ready, and only then.
func TestSlotsWithoutWeightAreTheLastResort(t *testing.T) {
	const ready, failed, loading = catalog.Ready, catalog.Failed, catalog.Loading
	for _, tt := range []struct {
		name    string
		weights []float64 // of the slots a, b, c, which lead to the versions 1 to 3
		refused refusing
		states  [3]catalog.State
		allowed string // the slots that answer; "": none does
	}{
		{"one weight, which is ready", []float64{100, 0, 0}, nil, [3]catalog.State{ready, ready, ready}, "a"},
		{"one weight, which is unfit", []float64{100, 0, 0}, refusing{1}, [3]catalog.State{ready, ready, ready}, "a"},
		{"one weight, which failed", []float64{100, 0, 0}, nil, [3]catalog.State{failed, ready, ready}, "bc"},
		{
			"one weight, which failed, and one of the others too",
			[]float64{100, 0, 0},
			nil,
			[3]catalog.State{failed, loading, ready},
			"c",
		},
		{
			"one weight, which failed, and one of the others is unfit",
			[]float64{100, 0, 0},
			refusing{2},
			[3]catalog.State{failed, ready, ready},
			"c",
		},
		{"two weights, of which one failed", []float64{60, 40, 0}, nil, [3]catalog.State{failed, ready, ready}, "b"},
		{"two weights, which failed", []float64{60, 40, 0}, nil, [3]catalog.State{failed, failed, ready}, "c"},
		{"all failed", []float64{60, 40, 0}, nil, [3]catalog.State{failed, failed, failed}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serving(1, weights(tt.weights...))
			for i, state := range tt.states {
				s.Model("m").Versions[i] = version("m", int64(i+1), state)
			}
			if got := s.Model("m").Answers(); got != (tt.allowed != "") {
				t.Errorf("Answers() is %v", got)
			}
			if most, err := routing.NewTable(s).Resolve("m", routing.Choice{}); (err == nil) != (tt.allowed != "") {
				t.Errorf("most of the traffic goes to slot %q, %v", most.Slot, err)
			}
			r, count := routing.NewRouter(routing.Config{Health: tt.refused}), map[string]int{}
			for i := range 200 {
				route, err := r.Route(s, routing.Request{Model: "m", Episode: episodeName(i)})
				if (err == nil) != (tt.allowed != "") {
					t.Fatalf("slot %q, error %v", route.Slot, err)
				}
				if err != nil {
					continue
				}
				count[route.Slot]++
				if noWeight := tt.weights[route.Version.Number-1] == 0; noWeight &&
					(route.FailedOverFrom == 0 || tt.weights[route.FailedOverFrom-1] == 0) {
					t.Fatalf("slot %q, without weight, answers for version %d", route.Slot, route.FailedOverFrom)
				}
			}
			if got := strings.Join(slices.Sorted(maps.Keys(count)), ""); got != tt.allowed {
				t.Errorf("slots %v answered, want each of %q", count, tt.allowed)
			}
		})
	}
}

// TestDrawn: no unit is drawn while a part of the split does not take what it is led to, be it led there or not; a
// running episode stays what it was.
func TestDrawn(t *testing.T) {
	unfit := refusing{}
	r := routing.NewRouter(routing.Config{Health: healthFunc(func(m string, v int64) bool { return unfit.Allow(m, v) })})
	s := serving(1, weights(50, 50))
	drawn := func(n int) (all int) {
		for i := range 100 {
			route := mustRoute(t, r, s, routing.Request{Episode: fmt.Sprint(n, "-", i)})
			again := mustRoute(t, r, s, routing.Request{Episode: fmt.Sprint(n, "-", i)})
			if again.Drawn != (route.FailedOverFrom == 0) {
				t.Errorf("%+v, then %+v", route, again)
			}
			if route.Drawn {
				all++
			}
		}
		return all
	}
	if n := drawn(1); n != 100 {
		t.Errorf("%d of 100 are drawn while all versions are fit", n)
	}
	unfit = refusing{2}
	if n := drawn(2); n != 0 {
		t.Errorf("%d of 100 are drawn while one version is not fit", n)
	}
	named := mustRoute(t, r, s, routing.Request{Choice: routing.Choice{Version: new(int64(1))}, Episode: "named"})
	if named.Drawn {
		t.Error("a request that names its version is drawn")
	}
}
