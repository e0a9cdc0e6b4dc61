package sim

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestMatches plays a few workloads that were drawn: nobody breaks the contract, the table has all, and the same seeds
// find the same.
func TestMatches(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
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
		if one.Ratio <= 0 || math.IsNaN(one.Error) {
			t.Errorf("match %d: %v", i, one)
		}
		listed := 2*one.Error < known && max(mean(one.Carried[0]), mean(one.Carried[one.Rival])) >= worthJudging
		if strings.Contains(page.String(), one.Workload.About) != listed {
			t.Errorf("match %d: %v, to be listed: %v\n%s", i, one, listed, page.String())
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
}

// TestOver: a worst is named only where its interval is narrow and somebody carries much.
func TestOver(t *testing.T) {
	m := Matches{All: []Match{
		{Carried: [][]float64{{0.6, 0.6, 0.6}, {0.8, 0.8, 0.8}}, Rival: 1},    // 0.75, known
		{Carried: [][]float64{{0.2, 0.6, 0.1}, {0.8, 0.8, 0.8}}, Rival: 1},    // less, unknown
		{Carried: [][]float64{{0.02, 0.02, 0.02}, {0.1, 0.1, 0.1}}, Rival: 1}, // less, small
		{Carried: [][]float64{{2, 2, 2}, {1, 1, 1}}, Rival: 1},
	}}
	s := m.Over(-1)
	if math.Abs(s.Worst-0.75) > 1e-9 || math.Abs(s.Most-math.Cbrt(0.75*0.375*2)) > 1e-9 || s.Mean >= s.Most {
		t.Errorf("%+v", s)
	}
}

// TestLanes: with one lane everybody has one, and policies that mean nothing then are left out; with two all may.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		of    func([]Maker) []Maker
		ours  int
		lanes []int
	}{{OneLane, 1, []int{1}}, {TwoLanes, 2, []int{1, 2, 9}}} {
		all := c.of(Policies())
		if all[0].Name != Ours || all[0].lanes(9) != c.ours {
			t.Errorf("%s has %d lanes", all[0].Name, all[0].lanes(9))
		}
		for _, f := range Families(all[1:]) {
			for _, m := range f.Members {
				if !slices.Contains(c.lanes, m.lanes(9)) {
					t.Errorf("%s of %s has %d lanes", m.Name, f.Name, m.lanes(9))
				}
			}
		}
	}
}
