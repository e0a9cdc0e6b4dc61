package sim

import (
	"os"
	"slices"
	"testing"
)

// TestWorstAreNoWorse plays the workloads that a search found to be the worst against each rival: none gets worse by a
// tenth. After a change of a rule that makes others the worst, search again:
//
//	bin/simulate --search 100 > tools/lab/sim/testdata/worst.txt
func TestWorstAreNoWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	skipUnderRace(t)
	file, err := os.Open("testdata/worst.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	kept, err := ReadWorst(file)
	if err != nil {
		t.Fatal(err)
	}
	families := Families(Policies())
	if len(kept) != len(families)-1 {
		t.Errorf("%d workloads are kept, want one against each of %d rivals", len(kept), len(families)-1)
	}
	for _, w := range kept {
		i := slices.IndexFunc(families, func(f Family) bool { return f.Name == w.Rival })
		if i < 1 {
			t.Errorf("no rival is called %q", w.Rival)
			continue
		}
		m := PlayGenerated([]Family{families[0], families[i]}, w.Seed, 1, SearchEffort, 1, nil)
		if found := m.Worst()[0]; found.Ratio < 0.9*w.Ratio {
			t.Errorf("workload %d: %.3f of the load of %s, was %.3f when it was found", w.Seed, found.Ratio, w.Rival, w.Ratio)
		}
	}
}
