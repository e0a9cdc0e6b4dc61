package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// seedsOf has a workload and a family of two, in which many carries more, and notes on which seeds each is run.
func seedsOf() (*Workload, *Family, map[string][]uint64) {
	ran := map[string][]uint64{}
	var first uint64 // the random number that shows the seed of the next run
	w := suiteWorkload("noting", "", 1, []Model{linear("only", 4, 0.4, 100, 1)})
	w.Arrivals[0].Course = func(rng *rand.Rand, span time.Duration) []Stretch {
		first = rng.Uint64()
		return []Stretch{{Until: span, Factor: 1}}
	}
	member := func(name string, rows int) Maker {
		return Maker{Name: name, New: func(e *Env) Policy {
			if !slices.Contains(ran[name], first) {
				ran[name] = append(ran[name], first)
			}
			return &script{env: e, next: inOrder(rows)}
		}}
	}
	return &w, &Family{Members: []Maker{member("few", 2), member("many", 32)}}, ran
}

func numbersOf(seeds ...uint64) []uint64 {
	var all []uint64
	for _, seed := range seeds {
		all = append(all, stream(seed, 2).Uint64())
	}
	return all
}

// TestTuning: members are compared on the training seed, and only the chosen one is played on the seed of the figure.
func TestTuning(t *testing.T) {
	e := Effort{Span: time.Second, Seeds: 1, Precision: 0.04}
	training, both := numbersOf(trainingSeed), numbersOf(trainingSeed, 1)

	w, f, ran := seedsOf()
	if _, tuned := G99(w, f, e); !slices.Equal(tuned, []string{"many"}) {
		t.Fatalf("chosen %v", tuned)
	}
	if !slices.Equal(ran["few"], training) || !slices.Equal(ran["many"], both) {
		t.Errorf("a load is searched with the seeds %v", ran)
	}

	w, f, ran = seedsOf()
	scene := Scene{Name: "noting", Workload: *w, Load: 0.9}
	s := Study{Families: []Family{*f}, Scenes: []Scene{scene}, Effort: e}
	if seen := s.Run().Scenes[Pair{f.Name, "noting"}]; seen.Policy != "many" {
		t.Fatalf("played with %s", seen.Policy)
	}
	if !slices.Equal(ran["few"], training) || !slices.Equal(ran["many"], both) {
		t.Errorf("a scene is played with the seeds %v", ran)
	}
}

// TestOneNeedsNoTraining: where there is nothing to choose, no run is spent on choosing.
func TestOneNeedsNoTraining(t *testing.T) {
	w, f, ran := seedsOf()
	f.Members = f.Members[1:]
	if G99(w, f, Quick); !slices.Equal(ran["many"], numbersOf(1)) {
		t.Errorf("seeds %v", ran["many"])
	}
}
