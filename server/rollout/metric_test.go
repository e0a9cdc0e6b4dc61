package rollout

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// anyEvidence draws evidence of all sizes, with candidates that are better, as good, and worse.
func anyEvidence(r *rand.Rand) (Gate, Evidence) {
	g := Gate{
		MinAgreement: 0.9, Outcome: "reward", Margin: float64(r.IntN(3)) / 4, LowerIsBetter: r.IntN(2) == 0,
		MaxErrorRate: 0.001 + r.Float64()/10,
	}.WithDefaults()
	requests := func() Requests {
		n := r.Int64N(1 << r.IntN(14))
		q := Requests{Asked: n, Count: n - n/10, Faults: r.Int64N(n/20 + 1), Failed: r.Int64N(n/10 + 1)}
		q.Compute = times(int(min(q.Count, sampleSize)), time.Duration(1+r.IntN(20))*time.Millisecond)
		return q
	}
	e := Evidence{Baseline: requests(), Candidate: requests(), Shadowed: r.Int64N(1000)}
	e.Agreed = e.Shadowed - r.Int64N(e.Shadowed/3+1)
	for range 1 + r.IntN(3) {
		var s Stratum
		shift := r.Float64()*2 - 1
		for range r.IntN(300) {
			s.Baseline.Add(r.NormFloat64())
			s.Candidate.Add(shift + r.NormFloat64())
		}
		e.Strata = append(e.Strata, s)
		n := r.Int64N(300)
		e.Lost = append(e.Lost, Stratum{share(r.Int64N(n/9+1), n), share(r.Int64N(n/3+1), n)})
	}
	for _, s := range e.Lost {
		e.BaselineEpisodes.Begun += s.Baseline.Count
		e.BaselineEpisodes.Lost += int64(math.Round(s.Baseline.Mean * float64(s.Baseline.Count)))
		e.CandidateEpisodes.Begun += s.Candidate.Count
		e.CandidateEpisodes.Lost += int64(math.Round(s.Candidate.Mean * float64(s.Candidate.Count)))
	}
	return g, e
}

// TestMetricsAreTheGates: of any evidence the bounds are those by which the checks judge, and lie where the checks say.
func TestMetricsAreTheGates(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		g, e := anyEvidence(r)
		report := Judge(g, e)
		if _, err := json.Marshal(report); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, c := range report.Checks {
			m := report.Metric(c.Name)
			if m == nil {
				continue
			}
			seen[fmt.Sprint(m.Name, " ", m.Standing)]++
			fault := func(why string) { t.Errorf("seed %d: %s: %s, %+v", seed, c.Name, why, c) }
			if (m.Standing == Worse) != (c.Verdict == Rollback) {
				fault("not worse where the gate says ROLLBACK, or else")
			}
			if m.Low != nil && m.High != nil && !(*m.Low <= *m.Difference && *m.Difference <= *m.High) {
				fault("the difference is out of its bounds")
			}
			left := m.High != nil && *m.High < -m.Margin
			switch c.Name {
			case "outcome":
				if (m.Standing == Better || m.Standing == NoWorse) != (c.Verdict == Promote) || left != (m.Standing == Worse) {
					fault("the interval says something else than the check")
				}
			case "errors":
				if few := e.Candidate.Faults < fewest; left != (m.Standing == Worse) && !few {
					fault("the interval says something else than the check")
				}
			case "agreement":
				if few := e.Shadowed-e.Agreed < fewest; left != (m.Standing == Worse) && !few {
					fault("the interval says something else than the check")
				}
			case "lost":
				if few := e.CandidateEpisodes.Lost < fewest; left != (m.Standing == Worse) && !few {
					fault("the interval says something else than the check")
				}
			case "failures":
				if few := e.Candidate.Failed < fewest || e.Candidate.Asked < g.MinRequests; left != (m.Standing == Worse) &&
					!few {
					fault("the interval says something else than the check")
				}
			case "latency":
				if m.Standing == Worse && !left {
					fault("worse by another interval")
				}
			}
		}
	}
	for _, name := range []string{"outcome", "errors", "failures", "lost", "latency", "agreement"} {
		standings := []Standing{NoWorse, Worse, Undecided}
		if name != "errors" && name != "agreement" {
			standings = append(standings, Better)
		} else if n := seen[fmt.Sprint(name, " ", Better)]; n > 0 {
			t.Errorf("%s was better than its limit in %d cases", name, n)
		}
		for _, s := range standings {
			if seen[fmt.Sprint(name, " ", s)] == 0 {
				t.Errorf("%s was never %v: the evidence is too alike", name, s)
			}
		}
	}
}

// TestPartBounds are where the test of surelyAbove begins to reject.
func TestPartBounds(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 8))
		tries := 1 + r.Int64N(1<<r.IntN(30))
		hits := r.Int64N(tries + 1)
		if seed%5 == 0 {
			hits = min(tries, r.Int64N(10))
		}
		low, high := partBounds(hits, tries, 0.05)
		p := float64(hits) / float64(tries)
		if !(0 <= low && low <= p && p <= high && high <= 1) {
			t.Errorf("%d of %d: from %v to %v", hits, tries, low, high)
		}
		if hits < fewest {
			continue
		}
		for _, at := range []float64{low * (1 - 1e-9), low * (1 + 1e-9), low / 2, p} {
			if got := surelyAbove(hits, tries, at, 0.05); got != (at < low) {
				t.Errorf("%d of %d: %v of the limit %v, with a lower bound of %v", hits, tries, got, at, low)
			}
		}
	}
	if low, high := partBounds(0, 100, 0.05); low != 0 || math.Abs(high-0.0742) > 1e-3 {
		t.Errorf("0 of 100: from %v to %v", low, high)
	}
}

// TestPartBoundsCoverage: looked at after every request, they exclude the truth in at most alpha of the runs.
func TestPartBoundsCoverage(t *testing.T) {
	skipCalibration(t)
	for _, p := range []float64{0.01, 0.2} {
		wrong := 0
		for i := range uint64(simulated) {
			r := rand.New(rand.NewPCG(i, 9))
			hits := int64(0)
			for n := int64(1); n <= 300; n++ {
				if r.Float64() < p {
					hits++
				}
				if low, high := partBounds(hits, n, 0.05); p < low || p > high {
					wrong++
					break
				}
			}
		}
		t.Logf("truth %v: out of bounds in %d of %d", p, wrong, simulated)
		if float64(wrong)/simulated > limit(0.05) {
			t.Errorf("truth %v: out of bounds in %d of %d runs", p, wrong, simulated)
		}
	}
}

// TestMetricsOfNothing: what is not known is absent.
func TestMetricsOfNothing(t *testing.T) {
	report := Judge(Gate{Outcome: "reward", MinAgreement: 0.5}, Evidence{})
	for _, m := range report.Metrics {
		if m.Baseline != nil || m.Candidate != nil || m.Difference != nil || m.Low != nil || m.High != nil ||
			m.Standing != Undecided {
			t.Errorf("%+v", m)
		}
	}
	if len(report.Metrics) != 6 {
		t.Errorf("%d metrics", len(report.Metrics))
	}
	// Of a hundred compute times no bound above the p95 is known.
	e := fine()
	e.Candidate.Compute = times(100, time.Millisecond)
	report = Judge(Gate{}, e)
	if known(math.Inf(1)) != nil || known(math.NaN()) != nil || math.Signbit(*known(math.Copysign(0, -1))) {
		t.Error("a number that cannot be written down is known")
	}
	if m := report.Metric("latency"); m.Low != nil || m.High == nil || *m.Difference < 0.8 {
		t.Errorf("%+v", m)
	}
}
