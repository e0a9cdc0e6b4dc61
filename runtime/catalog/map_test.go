package catalog

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestMapIsAsAMap compares maps with Go's own, and each with the maps that it came from, which must not change.
func TestMapIsAsAMap(t *testing.T) {
	type state struct {
		now  Map[string, int]
		want map[string]int
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		states := []state{{want: map[string]int{}}}
		for range 100 {
			from := states[random.IntN(len(states))]
			next := state{from.now, maps.Clone(from.want)}
			for range random.IntN(5) {
				key, value := strconv.Itoa(random.IntN(40)), 1+random.IntN(3)
				if random.IntN(3) == 0 {
					next.now = next.now.Without(key)
					delete(next.want, key)
				} else {
					next.now = next.now.With(key, value)
					next.want[key] = value
				}
			}
			states = append(states, next)
		}
		for _, s := range states {
			check(t, s.now, s.want)
			before := states[random.IntN(len(states))]
			changes := map[string]int{}
			for key := range before.want {
				if s.want[key] == 0 {
					changes[key] = 0
				}
			}
			for key, value := range s.want {
				if before.want[key] != value {
					changes[key] = value
				}
			}
			if got := maps.Collect(s.now.Since(before.now)); !maps.Equal(got, changes) {
				t.Errorf("from %v to %v it has changed by %v, want %v", before.want, s.want, got, changes)
			}
		}
	}
}

func check(t *testing.T, m Map[string, int], want map[string]int) {
	t.Helper()
	var keys []string
	for key, value := range m.All() {
		keys = append(keys, key)
		if value != want[key] || m.Get(key) != value {
			t.Errorf("%q has %d and %d, want %d", key, value, m.Get(key), want[key])
		}
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, sorted) || m.Len() != len(want) {
		t.Errorf("%d keys: %q, want %q", m.Len(), keys, sorted)
	}
	for range m.All() {
		break // must not go on, nor panic
	}
}

// TestMapSharesWhatIsTheSame counts the parts that a change of one key makes again, and the parts that are looked at
// for the difference.
func TestMapSharesWhatIsTheSame(t *testing.T) {
	var m Map[int, int]
	const many = 1 << 16
	for i := range many {
		m = m.With(i, i)
	}
	deepest := 0
	for i := range 100 {
		next := m.With(i*601, -1)
		anew := 0
		for before, now := m.root, next.root; before != now; anew++ {
			if i*601 < now.key {
				before, now = before.left, now.left
			} else if i*601 > now.key {
				before, now = before.right, now.right
			} else if before.left == now.left && before.right == now.right {
				before, now = nil, nil
			}
		}
		deepest = max(deepest, anew)
	}
	if deepest > 60 { // about 40 in a tree of so many; the whole has 65536
		t.Errorf("a change of one of %d keys makes %d parts anew", many, deepest)
	}
	// A NaN is not equal to itself, so that each part that is looked at shows as a difference.
	var all Map[int, float64]
	for i := range many {
		all = all.With(i, math.NaN())
	}
	next := all.With(17, 1).Without(40_000).With(many, 1)
	if looked := len(maps.Collect(next.Since(all))); looked < 3 || looked > 200 {
		t.Errorf("for three differences %d of %d keys are looked at", looked, many)
	}
}

func TestPhrase(t *testing.T) {
	for want, l := range map[string]LoadProgress{
		"waiting for its turn":          {},
		"copying files 1.5 of 300.0 MB": {Stage: StageCopying, Done: 15e5, Of: 3e8},
		"opening the session":           {Stage: StageOpening},
		"proving batching 12 of 40":     {Stage: StageProving, Done: 12, Of: 40},
		"warming up 0 of 3":             {Stage: StageWarmingUp, Of: 3},
		"warming up":                    {Stage: StageWarmingUp},
	} {
		if got := l.Phrase(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

func TestLookUp(t *testing.T) {
	ready := func(n int64, s State) *Version { return &Version{Model: "b", Number: n, State: s} }
	b := &Model{Name: "b", Versions: []*Version{ready(1, Ready), ready(3, Ready), ready(20, Loading)}}
	s := &Snapshot{Models: ByName(&Model{Name: "a"}, b, &Model{Name: "c"})}
	for name, want := range map[string]*Model{"b": b, "": nil, "bb": nil, "../b": nil, "z": nil} {
		if got := s.Model(name); got != want {
			t.Errorf("Model(%q) = %v, want %v", name, got, want)
		}
	}
	for number, want := range map[int64]*Version{
		1: b.Versions[0], 3: b.Versions[1], 20: b.Versions[2], 2: nil, 0: nil,
		21: nil,
	} {
		if got := b.Version(number); got != want {
			t.Errorf("Version(%d) = %v, want %v", number, got, want)
		}
	}
	if got := b.Newest(); got != b.Versions[1] {
		t.Errorf("Newest() = %v, want version 3: 20 is not ready", got)
	}
	if got := s.Model("a").Newest(); got != nil {
		t.Errorf("Newest() of a model without versions = %v", got)
	}
}
