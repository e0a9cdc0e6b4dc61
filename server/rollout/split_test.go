package rollout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func divided(part float64, b, c int64) *stratum {
	return &stratum{part: part, episodes: [2]fates{{seen: b}, {seen: c}}}
}

func TestSplit(t *testing.T) {
	// 60 and 40 of a hundred where 50 and 50 are expected: 100/50 + 100/50 = 4, p 0.0455 (tables of chi-square).
	s := splitOf([]*stratum{divided(0.5, 60, 40)})
	if s.Expected != 50 || math.Abs(*s.ChiSquare-4) > 1e-9 || math.Abs(*s.PValue-0.0455) > 1e-4 || s.Mismatch {
		t.Errorf("%+v: %v, %v", s, *s.ChiSquare, *s.PValue)
	}
	for _, few := range [][]*stratum{nil, {divided(0.01, 400, 4)}, {divided(0.5, 0, 9)}} {
		if s := splitOf(few); s.ChiSquare != nil || s.PValue != nil || s.Mismatch {
			t.Errorf("%+v", s)
		}
	}
	// Stages are added up: neither by itself is off by enough.
	s = splitOf([]*stratum{divided(0.1, 945, 75), divided(0.5, 540, 460)})
	if !s.Mismatch || s.Candidate != 535 || s.Baseline != 1485 {
		t.Errorf("%+v %v", s, *s.PValue)
	}
}

// TestSplitIsSeldomSuspicious of fair ones, and nearly always of one in which a fifth of the candidate's are missing.
func TestSplitIsSeldomSuspicious(t *testing.T) {
	fair, unfair := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		draw := func(lost float64) []*stratum {
			var all []*stratum
			for _, part := range []float64{0.01, 0.1, 0.5} {
				var n [2]int64
				for range 2000 {
					switch {
					case r.Float64() >= part:
						n[baseline]++
					case r.Float64() >= lost:
						n[candidate]++
					}
				}
				all = append(all, divided(part, n[baseline], n[candidate]))
			}
			return all
		}
		if splitOf(draw(0)).Mismatch {
			fair++
		}
		if splitOf(draw(0.2)).Mismatch {
			unfair++
		}
	}
	t.Logf("suspicious: %d fair ones and %d others of 2000", fair, unfair)
	if fair > 8 || unfair < 1900 { // 2 are expected of the fair ones, with a deviation of 1.4
		t.Errorf("suspicious: %d fair ones and %d others of 2000", fair, unfair)
	}
}

// TestExcludedEpisodes are counted by reason, and the split is of all that began.
func TestExcludedEpisodes(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		f.ask("early", 1)
		pass(time.Second)
		f.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{50, 100} })
		pass(time.Second)
		f.report("early", 1)
		f.ask("silent", 2)
		for i := range 40 {
			name := fmt.Sprint("episode ", i)
			f.ask(name, int64(1+i%2))
			pass(time.Millisecond)
			f.report(name, 1)
		}
		pass(50 * time.Second) // "silent" is lost
		f.ask("late", 1)
		f.ask("later", 2)
		pass(2 * time.Second)
		f.report("later", 1) // while "late", which began before it, is one in twenty-one: it need not wait
		pass(2 * time.Second)
		r := f.state(t)
		want := []Excluded{{"lost", 0, 1}, {"unfinished", 1, 0}, {"outside", 1, 0}}
		if !slices.Equal(r.Report.Excluded, want) {
			t.Errorf("%+v", r.Report.Excluded)
		}
		if s := r.Report.Split; s.Baseline != 21 || s.Candidate != 22 || s.Expected != 21.5 || s.Mismatch {
			t.Errorf("%+v", s)
		}
		if _, err := f.Advance("m"); err != nil {
			t.Fatal(err)
		}
		// Outcomes of a stage that only one version had do not count.
		if x := (Excluded{"unpaired", 3, 0}); !slices.Contains(excludedOf(&run{strata: []*stratum{
			{Stratum: Stratum{Baseline: share(1, 3)}},
		}}), x) {
			t.Error("outcomes without a counterpart are not excluded")
		}
	})
}

func excludedOf(r *run) []Excluded {
	var e Evidence
	r.tellExcluded(&e)
	return e.Excluded
}
