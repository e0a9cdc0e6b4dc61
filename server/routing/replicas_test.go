package routing_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// tableOf returns a model "m" of four versions whose states and traffic are drawn. Shares are coarse, so that two
// tables that draw otherwise do so of some episode in a thousand.
func tableOf(r *rand.Rand) *catalog.Model {
	m := &catalog.Model{Name: "m"}
	for n := range int64(4) {
		state := catalog.Ready
		if r.IntN(4) == 0 {
			state = catalog.Loading
		}
		m.Versions = append(m.Versions, version("m", n+1, state))
	}
	m.Traffic = &catalog.Traffic{Revision: r.Uint64()}
	for _, name := range []string{"a", "b", "c", "d"}[:r.IntN(5)] {
		m.Traffic.Split = append(m.Traffic.Split, catalog.Slot{
			Name: name, Version: 1 + r.Int64N(4), Weight: []float64{0, 1, 2, 4}[r.IntN(4)],
		})
	}
	return m
}

// otherTable returns a copy with one difference, which may decide nothing.
func otherTable(r *rand.Rand, m *catalog.Model) *catalog.Model {
	next := *m
	traffic := *m.Traffic
	next.Versions, next.Traffic = slices.Clone(m.Versions), &traffic
	split := slices.Clone(traffic.Split)
	traffic.Split = split
	slot := &catalog.Slot{}
	if len(split) > 0 {
		slot = &split[r.IntN(len(split))]
	}
	switch r.IntN(8) {
	case 0:
		traffic.Revision, traffic.Source, traffic.By = 7, "rollout", "somebody"
	case 1:
		traffic.Shadow = []catalog.Shadow{{Version: 2, Sample: 1}}
	case 2:
		next.Labels = map[string]int64{"stable": 3}
	case 3:
		r.Shuffle(len(split), func(i, k int) { split[i], split[k] = split[k], split[i] })
	case 4:
		for i := range split {
			split[i].Weight *= 3
		}
	case 5:
		slot.Weight = []float64{0, 1, 2, 4}[r.IntN(4)]
	case 6:
		slot.Version = 1 + r.Int64N(4)
	case 7:
		i := r.IntN(4)
		next.Versions[i] = version("m", int64(i+1), catalog.State(1+r.IntN(4)))
	}
	return &next
}

// draws is what a router that knows nothing says of so many episodes; nil where nothing is ready.
func draws(t *testing.T, r *routing.Router, revision uint64, m *catalog.Model, n int) (all []routing.Route) {
	t.Helper()
	s := &catalog.Snapshot{Revision: revision, Models: catalog.ByName(m)}
	for i := range n {
		route, err := r.Route(s, routing.Request{Model: "m", Episode: episodeName(i)})
		if err != nil {
			return nil
		}
		if route.FailedOverFrom != 0 { // what the split leads to, of versions that are not ready, is not drawn
			want, _, _ := cutStandIn(route.Table)
			route.Table = want
		}
		all = append(all, routing.Route{
			Version: &catalog.Version{Number: route.Version.Number}, Slot: route.Slot, Table: route.Table, Draw: route.Draw,
		})
	}
	return all
}

func cutStandIn(table string) (hash, by string, stands bool) {
	if len(table) > 16 {
		return table[:16], table[17:], table[16] == '+'
	}
	return table, "", false
}

func sameDraws(a, b []routing.Route) bool {
	return slices.EqualFunc(a, b, func(a, b routing.Route) bool {
		return a.Version.Number == b.Version.Number && a.Slot == b.Slot && a.Draw == b.Draw
	})
}

// TestReplicasAgree: a server whose versions became ready in another order, whose traffic was written in another order,
// and that was started at another time, leads each episode to the same version, and names the same table.
func TestReplicasAgree(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 71))
		m := tableOf(r)
		one := draws(t, routing.NewRouter(routing.Config{}), 1, m, 200)

		c := &clock{}
		c.advance(time.Duration(r.Int64()))
		other := routing.NewRouter(routing.Config{Now: c.Now})
		loads := *m
		loads.Versions = make([]*catalog.Version, len(m.Versions))
		for i := range loads.Versions {
			loads.Versions[i] = version("m", int64(i+1), catalog.Loading)
		}
		revision := uint64(1)
		for _, i := range r.Perm(len(m.Versions)) {
			revision++
			loads.Versions = slices.Clone(loads.Versions)
			loads.Versions[i] = m.Versions[i]
			now := loads
			other.Table(&catalog.Snapshot{Revision: revision, Models: catalog.ByName(&now)})
		}
		last := loads
		traffic := *m.Traffic
		traffic.Split = slices.Clone(traffic.Split)
		slices.Reverse(traffic.Split)
		last.Traffic = &traffic
		two := draws(t, other, revision+1, &last, 200)
		if !sameDraws(one, two) {
			t.Fatalf("seed %d: %+v is not divided alike", seed, m.Traffic.Split)
		}
		for i := range one {
			if one[i].Table != two[i].Table || len(one[i].Table) != 16 {
				t.Fatalf("seed %d: the tables are %q and %q", seed, one[i].Table, two[i].Table)
			}
		}
	}
}

// TestTheHashIsOfTheDraw: two tables have one hash exactly if they draw every episode alike.
func TestTheHashIsOfTheDraw(t *testing.T) {
	const episodes = 500
	same, differ := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 72))
		a := tableOf(r)
		b := otherTable(r, otherTable(r, otherTable(r, a)))
		one := draws(t, routing.NewRouter(routing.Config{}), 1, a, episodes)
		two := draws(t, routing.NewRouter(routing.Config{}), 1, b, episodes)
		if one == nil || two == nil {
			continue
		}
		alike, named := sameDraws(one, two), one[0].Table == two[0].Table
		if alike != named {
			t.Errorf("seed %d: %+v and %+v draw alike: %v; hashes %s and %s", seed, a.Traffic.Split, b.Traffic.Split, alike,
				one[0].Table, two[0].Table)
		}
		if alike {
			same++
		} else {
			differ++
		}
	}
	if same < 100 || differ < 100 {
		t.Errorf("%d pairs of tables draw alike, and %d do not", same, differ)
	}
	if t.Failed() {
		return
	}
	// Computed by a second implementation of the package comment, in Python. It never changes: replicas of two releases
	// would not agree.
	all := draws(t, routing.NewRouter(routing.Config{}), 1, serving(1, weights(90, 10)).Model("m"), 1)
	if got, want := all[0].Table, "3eb2e79abb5dbfdd"; got != want {
		t.Errorf("the table of 90 and 10 is %s, want %s", got, want)
	}
}

// TestAStageMovesOnlyWhatItMust: a stage of a rollout leads episodes to the candidate, and none away from it.
func TestAStageMovesOnlyWhatItMust(t *testing.T) {
	const episodes = 100_000
	of := func(percent float64) []routing.Route {
		return draws(t, routing.NewRouter(routing.Config{MaxEpisodes: episodes}), 1,
			serving(1, weights(100-percent, percent)).Model("m"), episodes)
	}
	before, was := of(1), 1.0
	for _, percent := range []float64{10, 50, 100} {
		after, moved := of(percent), 0
		for i := range after {
			switch from, to := before[i].Version.Number, after[i].Version.Number; {
			case from == to:
			case to == 1:
				t.Fatalf("%s left the candidate when it got %v %%", episodeName(i), percent)
			default:
				moved++
			}
		}
		if got, want := 100*float64(moved)/episodes, percent-was; got < want-0.5 || got > want+0.5 {
			t.Errorf("%.2f %% moved from %v to %v %%", got, was, percent)
		}
		before, was = after, percent
	}
}

// TestRollingRestart: no episode changes its version while three servers are restarted one after the other, wherever
// its requests go. A server is asked once the versions of its traffic are ready, in whatever order they became so.
func TestRollingRestart(t *testing.T) {
	const episodes = 100_000
	r := rand.New(rand.NewPCG(1, 73))
	whole := serving(9, weights(60, 30, 10))
	start := func() *routing.Router {
		router := routing.NewRouter(routing.Config{})
		loads := serving(1, weights(60, 30, 10)).Model("m")
		for i := range loads.Versions {
			loads.Versions[i] = version("m", int64(i+1), catalog.Loading)
		}
		for step, i := range r.Perm(len(loads.Versions)) {
			now := *loads
			now.Versions = slices.Clone(loads.Versions)
			now.Versions[i] = version("m", int64(i+1), catalog.Ready)
			loads = &now
			router.Table(&catalog.Snapshot{Revision: uint64(2 + step), Models: catalog.ByName(loads)})
		}
		return router
	}
	servers := []*routing.Router{start(), start(), start()}
	first, table := make([]int64, episodes), ""
	ask := func(away int) {
		for i := range episodes {
			to := r.IntN(len(servers))
			if to == away {
				to = (to + 1) % len(servers)
			}
			route := mustRoute(t, servers[to], whole, routing.Request{Episode: strconv.Itoa(i)})
			if table == "" {
				table = route.Table
			}
			if first[i] == 0 {
				first[i] = route.Version.Number
			}
			if route.Version.Number != first[i] || route.Table != table {
				t.Fatalf("episode %d went from %d by %s to %d by %s", i, first[i], table, route.Version.Number, route.Table)
			}
		}
	}
	ask(-1)
	for i := range servers {
		ask(i)
		servers[i] = start()
	}
	ask(-1)
}
