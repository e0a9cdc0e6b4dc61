package routing_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// manyEpisodes are fewer under the race detector, since one goroutine asks for them.
var manyEpisodes = map[bool]int{false: 100_000, true: 20_000}[race.Enabled]

// weights makes a split of slots a, b, c... on versions 1, 2, 3...
func weights(w ...float64) []catalog.Slot {
	var slots []catalog.Slot
	for i, weight := range w {
		slots = append(slots, catalog.Slot{Name: string(rune('a' + i)), Version: int64(i + 1), Weight: weight})
	}
	return slots
}

// serving is the snapshot of a model "m" with four ready versions, its traffic divided so.
func serving(revision uint64, split []catalog.Slot, shadows ...catalog.Shadow) *catalog.Snapshot {
	m := model("m", map[string]int64{"stable": 1}, catalog.Ready, catalog.Ready, catalog.Ready, catalog.Ready)
	m.Traffic = &catalog.Traffic{Revision: revision, Split: split, Shadow: shadows}
	return &catalog.Snapshot{Revision: revision, Models: catalog.ByName(m)}
}

func episodeName(i int) string { return fmt.Sprintf("episode-%d", i) }

func mustRoute(t testing.TB, r *routing.Router, s *catalog.Snapshot, q routing.Request) routing.Route {
	t.Helper()
	if q.Model == "" {
		q.Model = "m"
	}
	route, err := r.Route(s, q)
	if err != nil {
		t.Fatal(err)
	}
	return route
}

// assign returns the slots of many new episodes.
func assign(t testing.TB, split []catalog.Slot) []string {
	t.Helper()
	name := fmt.Sprint(split)
	if slots, ok := assigned[name]; ok {
		return slots
	}
	r, s := routing.NewRouter(routing.Config{MaxEpisodes: 2 * manyEpisodes}), serving(1, split)
	slots := make([]string, manyEpisodes)
	for i := range slots {
		slots[i] = mustRoute(t, r, s, routing.Request{Episode: episodeName(i)}).Slot
	}
	assigned[name] = slots
	return slots
}

// assigned keeps the results of assign: several tests ask for the same.
var assigned = map[string][]string{}

// wantShare fails unless count of total is within three standard errors of the share.
func wantShare(t testing.TB, what string, count, total int, share float64) {
	t.Helper()
	got, limit := float64(count)/float64(total), 3*math.Sqrt(share*(1-share)/float64(total))
	if math.Abs(got-share) > limit {
		t.Errorf("%s: %.4f, want %.4f ± %.4f", what, got, share, limit)
	}
}

func TestSplitHasItsShares(t *testing.T) {
	for _, split := range [][]catalog.Slot{
		weights(90, 10), weights(99, 1), weights(0.5, 0.5), weights(60, 30, 10), weights(1e300, 1e300, 2e300),
		weights(5e-324, 5e-324), weights(1, 0, 3),
	} {
		count, sum := map[string]int{}, 0.0
		for _, slot := range assign(t, split) {
			count[slot]++
		}
		for _, s := range split {
			sum += s.Weight / split[0].Weight
		}
		for _, s := range split {
			wantShare(t, fmt.Sprintf("slot %s of %v", s.Name, split), count[s.Name], manyEpisodes,
				s.Weight/split[0].Weight/sum)
		}
	}
}

func TestReweightingMovesOnlyWhatMust(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, tt := range []struct {
		name     string
		from, to []catalog.Slot
		moves    map[string]float64 // moves that may happen, "from>to", and the share of all episodes that makes them
	}{
		{"two slots", weights(90, 10), weights(80, 20), map[string]float64{"a>b": 0.1}},
		{"two slots, back", weights(80, 20), weights(90, 10), map[string]float64{"b>a": 0.1}},
		{
			"three slots, one grows", weights(60, 30, 10), weights(60*80./90, 30*80./90, 20),
			map[string]float64{"a>c": 0.1 * 2 / 3, "b>c": 0.1 / 3},
		},
		{
			"three slots, one shrinks", weights(40, 20, 40), weights(46, 23, 31),
			map[string]float64{"c>a": 0.06, "c>b": 0.03},
		},
		{"a slot is added", weights(50, 50), weights(45, 45, 10), map[string]float64{"a>c": 0.05, "b>c": 0.05}},
		{
			"a slot is closed", weights(60, 30, 10), weights(60, 30, 0),
			map[string]float64{"c>a": 0.1 * 2 / 3, "c>b": 0.1 / 3},
		},
		{"another scale", weights(60, 30, 10), weights(6, 3, 1), nil},
		{
			"another order", weights(60, 30, 10),
			[]catalog.Slot{weights(60, 30, 10)[2], weights(60, 30, 10)[0], weights(60, 30, 10)[1]},
			nil,
		},
		// Two change and one stays: some move to the one that stays and some leave it, 12.7 % in all.
		{"three slots, from one to another", weights(60, 30, 10), weights(50, 30, 20), map[string]float64{
			"a>b": 3. / 110, "a>c": 0.1 - 3./110, "b>c": 3. / 110,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			moved := map[string]int{}
			before, after := assign(t, tt.from), assign(t, tt.to)
			for i := range before {
				if before[i] != after[i] {
					moved[before[i]+">"+after[i]]++
				}
			}
			for move, count := range moved {
				if _, ok := tt.moves[move]; !ok {
					t.Errorf("%d episodes moved %s", count, move)
				}
			}
			for move, share := range tt.moves {
				wantShare(t, move, moved[move], manyEpisodes, share)
			}
		})
	}
}

func TestModelsDivideIndependently(t *testing.T) {
	s := serving(1, weights(90, 10))
	other := *s.Model("m")
	other.Name = "n"
	s.Models = s.Models.With("n", &other)
	r, both := routing.NewRouter(routing.Config{MaxEpisodes: 2 * manyEpisodes}), 0
	for i := range manyEpisodes {
		a := mustRoute(t, r, s, routing.Request{Episode: episodeName(i)})
		b := mustRoute(t, r, s, routing.Request{Model: "n", Episode: episodeName(i)})
		if a.Slot == "b" && b.Slot == "b" {
			both++
		}
	}
	wantShare(t, "in the canaries of both models", both, manyEpisodes, 0.01)
}

func TestRequestsWithoutEpisode(t *testing.T) {
	r, s := routing.NewRouter(routing.Config{}), serving(1, weights(90, 10))
	bySerial := 0
	for i := range manyEpisodes {
		// Clients give all of their requests the same id, or number them from 1 each.
		route := mustRoute(t, r, s, routing.Request{RequestID: "1", Serial: uint64(i)})
		if !route.Degraded || route.Pinned {
			t.Fatalf("route %+v, want degraded", route)
		}
		if route.Slot == "b" {
			bySerial++
		}
	}
	wantShare(t, "by serial", bySerial, manyEpisodes, 0.1)
	if n := r.Episodes(); n != 0 {
		t.Errorf("%d episodes of requests that have none", n)
	}
	for what, split := range map[string][]catalog.Slot{
		"nothing split": nil, "one part": weights(1),
		"one part with weight": weights(0, 3),
	} {
		if route := mustRoute(t, routing.NewRouter(routing.Config{}), serving(1, split),
			routing.Request{}); route.Degraded {
			t.Errorf("%s: degraded", what)
		}
	}
}

func TestChoiceOverridesSplit(t *testing.T) {
	r := routing.NewRouter(routing.Config{Health: refusing{1, 2, 3, 4}})
	s := serving(1, weights(1, 0), catalog.Shadow{Version: 3, Sample: 1})
	for _, choice := range []routing.Choice{{Version: new(int64(2))}, {Label: new("stable")}} {
		want := routing.Route{Version: s.Model("m").Versions[0]}
		if choice.Version != nil {
			want.Version = s.Model("m").Versions[1]
		}
		got := mustRoute(t, r, s, routing.Request{Choice: choice, Episode: "e"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("route (-want +got):\n%s", diff)
		}
		if _, ok := r.VersionOf("m", "e"); ok {
			t.Error("a chosen version pinned the episode")
		}
	}
	mustRoute(t, r, s, routing.Request{Episode: "e"})
	if got := mustRoute(t, r, s,
		routing.Request{Episode: "e", Choice: routing.Choice{Version: new(int64(2))}}); got.Version.Number != 2 {
		t.Errorf("version 2 was chosen, %d answers", got.Version.Number)
	}
	if got := mustRoute(t, r, s, routing.Request{Episode: "e"}); got.Version.Number != 1 || !got.Pinned {
		t.Errorf("after a request that chose version 2 the episode goes to %+v", got)
	}
}
