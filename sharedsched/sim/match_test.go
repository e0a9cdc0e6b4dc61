package sim

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestMatches plays a few workloads that were drawn: nobody breaks the contract, the table has all, and the same seeds
// find the same.
func TestMatches(t *testing.T) {
	skipUnderRace(t)
	families := Families([]Maker{
		Core(Ours, CoreOptions{}), Baselines()[0], policyNamed(t, "edf"), policyNamed(t, "nexus"),
	})
	e := Effort{Seeds: 2, Precision: 0.04}
	play := func() *Matches { return PlayGenerated(families, 1, 6, e, 2, nil) }
	m := play()
	var page, again bytes.Buffer
	if err := m.Markdown(&page); err != nil {
		t.Fatal(err)
	}
	if err := play().Markdown(&again); err != nil || page.String() != again.String() {
		t.Errorf("the same seeds found\n%s\nand\n%s", page.String(), again.String())
	}
	for i, one := range m.All {
		if one.Seed != uint64(i+1) || len(one.Carried) != len(families) || len(one.Carried[0]) != e.Seeds {
			t.Errorf("match %d: %+v", i, one)
		}
		if one.Ratio <= 0 || math.IsNaN(one.Error) || !strings.Contains(page.String(), one.Workload.About) {
			t.Errorf("match %d: %v\n%s", i, one, page.String())
		}
	}
}

// policyNamed returns the baseline of that name.
func policyNamed(t *testing.T, name string) Maker {
	t.Helper()
	for _, p := range Baselines() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no policy is named %s", name)
	return Maker{}
}

// TestInterval against values worked out by hand.
func TestInterval(t *testing.T) {
	middle, half := interval([]float64{1, 2, 3})
	if middle != 2 || math.Abs(half-4.30/math.Sqrt(3)) > 1e-9 {
		t.Errorf("%v ± %v", middle, half)
	}
	if middle, half := interval([]float64{5}); middle != 5 || half != 0 {
		t.Errorf("of one sample: %v ± %v", middle, half)
	}
	if s := summary([]float64{1, 4, 2, 0.5}); math.Abs(s.Mean-math.Sqrt(2)) > 1e-9 || s.Worst != 0.5 || s.Fifth != 0.5 {
		t.Errorf("%+v", s)
	}
}
