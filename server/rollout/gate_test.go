package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// rates are how often units of a version do something.
type rates struct {
	fault, failed, slow, lost, disagree float64
	outcome                             float64 // its mean
}

// gathered is the evidence of so many units of each version, by halves.
func gathered(r *rand.Rand, g Gate, units int, b, c rates) *Evidence {
	e := &Evidence{Range: Range{High: 1, Declared: true}}
	g = g.WithDefaults()
	e.ask(&g)
	e.P95[baseline].Count, e.P95[baseline].Log = firsts, math.Log(1e6)
	hit := func(p float64) int64 {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
	for range 2 * units {
		side := r.IntN(2)
		of := [...]rates{b, c}[side]
		u := unit{asked: 1, answered: 1, faults: hit(of.fault), failed: hit(of.failed), slow: hit(of.slow)}
		e.add(first, side, 0.5, &u)
		e.add(whole, side, 0.5, &u)
		e.Requests.Answered[side]++
		e.Fates[side].Begun++
		lost := hit(of.lost)
		e.Fates[side].Lost += lost
		e.Lost.Add(side, 0.5, float64(lost), "")
		outcome := hit(of.outcome)
		if !g.LowerIsBetter {
			outcome = 1 - outcome
		}
		e.Outcome.Add(side, 0.5, float64(outcome), "")
		if side == candidate {
			e.Disagreement.alone(float64(hit(of.disagree)))
		}
	}
	return e
}

// TestJudge: what differs surely and by more than is allowed is rolled back, what surely does not is promoted, and all
// else is held.
func TestJudge(t *testing.T) {
	fine := rates{outcome: 0.5}
	for name, c := range map[string]struct {
		gate                Gate
		units               int
		baseline, candidate rates
		verdict             Verdict
		check, reason       string // that decides
	}{
		"all is well":             {Gate{}, 2000, fine, fine, Promote, "errors", "and the margin is 0.01"},
		"too few to say":          {Gate{}, 300, fine, fine, Hold, "errors", " of the candidate are needed"},
		"few, and much allowed":   {Gate{MaxErrorRate: 0.1, MaxFailureIncrease: 0.1}, 800, fine, fine, Promote, "errors", ""},
		"faults":                  {Gate{}, 2000, fine, rates{fault: 0.05}, Rollback, "errors", "with a fault of the model"},
		"faults of both alike":    {Gate{}, 20_000, rates{fault: 0.03}, rates{fault: 0.03}, Promote, "errors", ""},
		"failures":                {Gate{}, 2000, fine, rates{failed: 0.05}, Rollback, "failures", "failed otherwise"},
		"failures of both alike":  {Gate{}, 20_000, rates{failed: 0.03}, rates{failed: 0.03}, Promote, "failures", ""},
		"slow":                    {Gate{}, 2000, rates{slow: 0.05}, rates{slow: 0.2}, Rollback, "latency", "took longer"},
		"as slow":                 {Gate{}, 2000, rates{slow: 0.05}, rates{slow: 0.001}, Promote, "latency", "1ms of the baseline"},
		"lost":                    {Gate{Outcome: "x", Margin: 0.2}, 2000, fine, rates{outcome: 0.5, lost: 0.2}, Rollback, "lost", "were lost"},
		"worse":                   {Gate{Outcome: "x", Margin: 0.1}, 2000, fine, rates{outcome: 0.3}, Rollback, "outcome", "more is better"},
		"no worse":                {Gate{Outcome: "x", Margin: 0.2}, 2000, fine, fine, Promote, "outcome", "the margin is 0.2"},
		"better, where it counts": {Gate{Outcome: "x"}, 2000, fine, rates{outcome: 0.7}, Promote, "outcome", ""},
		"better, being lower": {
			Gate{Outcome: "x", LowerIsBetter: true}, 2000, fine, rates{outcome: 0.3}, Promote, "outcome", "less is better",
		},
		"worse, being higher": {
			Gate{Outcome: "x", LowerIsBetter: true}, 2000, fine, rates{outcome: 0.7}, Rollback, "outcome", "",
		},
		"as good, without a margin": {Gate{Outcome: "x"}, 2000, fine, fine, Hold, "outcome", ""},
		"agrees":                    {Gate{MinAgreement: 0.9}, 2000, fine, rates{disagree: 0.05}, Promote, "agreement", "at least 0.9"},
		"disagrees":                 {Gate{MinAgreement: 0.9}, 2000, fine, rates{disagree: 0.2}, Rollback, "agreement", ""},
		"disagrees at the limit":    {Gate{MinAgreement: 0.9}, 2000, fine, rates{disagree: 0.1}, Hold, "agreement", ""},
		"nothing":                   {Gate{MinAgreement: 0.9, Outcome: "x"}, 0, fine, fine, Hold, "agreement", "no request of the candidate"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.gate.Outcome != "" {
				c.gate.OutcomeMin, c.gate.OutcomeMax = new(0.0), new(1.0)
			}
			r := Judge(c.gate, gathered(rand.New(rand.NewPCG(1, 36)), c.gate, c.units, c.baseline, c.candidate))
			check := named(r, c.check)
			if r.Verdict != c.verdict || check.Verdict != c.verdict || !strings.Contains(check.Reason, c.reason) {
				t.Errorf("%v, want %v by %s (%q): %+v", r.Verdict, c.verdict, c.check, c.reason, r.Checks)
			}
		})
	}
}

// TestMetricsAreTheGates: of any evidence the bounds lie where the checks say.
func TestMetricsAreTheGates(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 7))
		g := Gate{
			MinAgreement: 0.9, Outcome: "reward", Margin: 0.1, LowerIsBetter: r.IntN(2) == 0, OutcomeMin: new(0.0),
			OutcomeMax: new(1.0),
		}
		anyRates := func() rates {
			p := func() float64 { return r.Float64() * r.Float64() * float64(r.IntN(2)) / 3 }
			return rates{p(), p(), p(), p(), p(), 0.3 + 0.4*r.Float64()}
		}
		report := Judge(g, gathered(r, g, 1<<r.IntN(13), anyRates(), anyRates()))
		if _, err := json.Marshal(report); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, c := range report.Checks {
			m := report.Metric(c.Name)
			if m == nil {
				continue
			}
			seen[fmt.Sprint(m.Name, " ", m.Standing)]++
			if m.Low != nil && m.High != nil && !(*m.Low <= *m.Difference && *m.Difference <= *m.High) {
				t.Errorf("seed %d: %s: the difference is out of its bounds, %+v", seed, c.Name, c)
			}
			within := m.Standing == Better || m.Standing == NoWorse
			if (m.Standing == Worse) != (c.Verdict == Rollback) || c.Verdict == Promote && !within {
				t.Errorf("seed %d: %s is %v, and the check says %v", seed, c.Name, m.Standing, c.Verdict)
			}
		}
	}
	for _, name := range []string{"outcome", "errors", "failures", "lost", "latency", "agreement"} {
		standings := []Standing{NoWorse, Worse, Undecided}
		if name != "agreement" {
			standings = append(standings, Better)
		}
		for _, s := range standings {
			if seen[fmt.Sprint(name, " ", s)] == 0 {
				t.Errorf("%s was never %v: the evidence is too alike", name, s)
			}
		}
	}
}

// TestMetricsOfNothing: what is not known is absent.
func TestMetricsOfNothing(t *testing.T) {
	report := Judge(Gate{Outcome: "reward", MinAgreement: 0.5}, &Evidence{})
	for _, m := range report.Metrics {
		if m.Baseline != nil || m.Candidate != nil || m.Difference != nil || m.Low != nil || m.High != nil ||
			m.Standing != Undecided {
			t.Errorf("%+v", m)
		}
	}
	if len(report.Metrics) != 6 {
		t.Errorf("%d metrics", len(report.Metrics))
	}
	if known(math.Inf(1)) != nil || known(math.NaN()) != nil || math.Signbit(*known(math.Copysign(0, -1))) {
		t.Error("a number that cannot be written down is known")
	}
}

// TestWhoReports: of several identities none moves a verdict, and one that reports most of all is named.
func TestWhoReports(t *testing.T) {
	g := Gate{Outcome: "x", Margin: 0.1, OutcomeMin: new(0.0), OutcomeMax: new(1.0)}.WithDefaults()
	draw := func(shares map[string]int, liar string) GateCheck {
		r := rand.New(rand.NewPCG(3, 36))
		e := &Evidence{Range: Range{High: 1, Declared: true}}
		e.ask(&g)
		for name, n := range shares {
			for range n {
				side := r.IntN(2)
				outcome := float64(r.IntN(2)) * float64(1-side) // the candidate is worse by a half
				if name == liar {
					outcome = float64(side)
				}
				e.Outcome.Add(side, 0.5, 1-outcome, name)
			}
		}
		c := g.outcome(e)
		check, _ := c.judge(1)
		return check
	}
	for name, c := range map[string]struct {
		shares  map[string]int
		liar    string
		verdict Verdict
		reason  string
	}{
		"all alike":       {map[string]int{"a": 300, "b": 300, "c": 300}, "", Rollback, ""},
		"one of several":  {map[string]int{"a": 300, "b": 300, "liar": 590}, "liar", Hold, `without what "liar" reported`},
		"most of it":      {map[string]int{"a": 100, "b": 100, "liar": 2000}, "liar", Promote, `rests on "liar", who has 2000 of 2200`},
		"nobody else":     {map[string]int{"liar": 2000}, "liar", Promote, ""},
		"too few to tell": {map[string]int{"a": 500, "liar": 500}, "liar", Promote, `rests on "a", who has 500 of 1000`},
	} {
		if got := draw(c.shares, c.liar); got.Verdict != c.verdict || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %+v, want %v because %s", name, got, c.verdict, c.reason)
		}
	}
}

func TestPlanCheck(t *testing.T) {
	valid := Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2}
	if err := valid.withDefaults().Check(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Plan){
		"model":                     func(p *Plan) { p.Model = "" },
		"baseline_version":          func(p *Plan) { p.BaselineVersion = 0 },
		"candidate_version":         func(p *Plan) { p.CandidateVersion = 1 },
		"stage_duration":            func(p *Plan) { p.StageDuration = -1 },
		"max_duration":              func(p *Plan) { p.MaxDuration = -1 },
		"stages[0]":                 func(p *Plan) { p.Stages = []float64{math.NaN(), 100} },
		"stages[1]":                 func(p *Plan) { p.Stages = []float64{50, 50, 100} },
		"stages[2]":                 func(p *Plan) { p.Stages = []float64{1, 2, 99} },
		"stages":                    func(p *Plan) { p.Stages = []float64{100} },
		"gate.min_requests":         func(p *Plan) { p.Gate.MinRequests = -1 },
		"gate.min_episodes":         func(p *Plan) { p.Gate.MinEpisodes = -1 },
		"gate.max_error_rate":       func(p *Plan) { p.Gate.MaxErrorRate = 1.1 },
		"gate.max_latency_ratio":    func(p *Plan) { p.Gate.MaxLatencyRatio = math.Inf(1) },
		"gate.min_agreement":        func(p *Plan) { p.Gate.MinAgreement = math.NaN() },
		"gate.max_failure_increase": func(p *Plan) { p.Gate.MaxFailureIncrease = 2 },
		"gate.max_lost_increase":    func(p *Plan) { p.Gate.MaxLostIncrease = math.NaN() },
		"gate.margin":               func(p *Plan) { p.Gate.Margin = -1 },
		"gate.alpha":                func(p *Plan) { p.Gate.Alpha = 1 },
		"gate.outcome":              func(p *Plan) { p.Gate.Margin = 1 },
		"gate.outcome_max":          func(p *Plan) { p.Gate.Outcome, p.Gate.OutcomeMin = "x", new(1.0) },
	} {
		p := valid
		change(&p)
		var wrong *PlanError
		if err := p.withDefaults().Check(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	backwards := Gate{Outcome: "x", OutcomeMin: new(1.0), OutcomeMax: new(1.0)}
	if err := backwards.Check(); err == nil {
		t.Error("a range of nothing is taken")
	}
}

// TestRange: what was seen, with as much room on either side; one outcome outside changes nothing, and a second begins
// another range.
func TestRange(t *testing.T) {
	var r Range
	for i := range learning {
		if r.learn(float64(i%3)) || r.known() != (i == learning-1) {
			t.Fatalf("after %d: %+v", i, r)
		}
	}
	if r.Low != -2 || r.High != 4 || r.place(1) != 0.5 || r.place(1e17) != 1 {
		t.Errorf("%+v", r)
	}
	if !r.learn(1) || !r.learn(1e17) || !r.learn(1) || r.High != 4 || r.alpha(0.1) != 0.05 {
		t.Errorf("after one outside: %+v", r)
	}
	if r.learn(10) || r.Low != -10 || r.High != 20 || r.Widened != 1 || r.alpha(6) != 1 {
		t.Errorf("after another: %+v", r)
	}
	var successes, same, tiny Range
	for i := range learning {
		tiny.learn(float64(i%2) * 1e-320)
	}
	if tiny.known() {
		t.Errorf("a range of nothing that numbers can tell: %+v", tiny)
	}
	for i := range learning {
		successes.learn(float64(i % 2))
		same.learn(500)
	}
	if successes.Low != 0 || successes.High != 1 || same.known() {
		t.Errorf("%+v, %+v", successes, same)
	}
}

// TestPercentile follows the 95th percentile, also where that moves.
func TestPercentile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 40))
	var p percentile
	for range firsts - 1 {
		p.add(time.Millisecond)
	}
	if p.known() || p.value() != 0 {
		t.Errorf("%+v", p)
	}
	for _, scale := range []float64{1, 3} {
		above, counted := 0, 0
		for i := range 20_000 {
			x := time.Duration(scale * float64(time.Millisecond) * math.Exp(0.5*r.NormFloat64()))
			if i >= 5000 {
				counted++
				if x > p.value() {
					above++
				}
			}
			p.add(x)
		}
		if part := float64(above) / float64(counted); part < 0.03 || part > 0.07 {
			t.Errorf("scale %v: %v are above", scale, part)
		}
	}
}

func TestSummary(t *testing.T) {
	p := &Plan{CandidateVersion: 8, Gate: Gate{Outcome: "success"}}
	r := Report{Metrics: []Metric{
		{Name: "latency", Standing: Better, BaselineCount: 9},
		{Name: "outcome", Standing: NoWorse, BaselineCount: 3000, CandidateCount: 1000},
	}}
	if got := r.summarize(p); got != "v8 is no worse on success, better on latency; 4,000 episodes" {
		t.Error(got)
	}
	r.Metrics = append(r.Metrics, Metric{Name: "errors", Standing: Worse}, Metric{Name: "lost", Standing: Worse},
		Metric{Name: "failures", Standing: Worse}, Metric{Name: "agreement", Standing: Undecided})
	r.Split = Split{Candidate: 100, Expected: 1234.4, Mismatch: true}
	if got := r.summarize(p); got != "v8 is worse on errors, lost episodes and failures, no worse on success, better on "+
		"latency, undecided on agreement; 4,000 episodes; these numbers mean little, since 100 of the episodes went to it "+
		"where 1,234 were expected" {
		t.Error(got)
	}
	if got := (&Report{Metrics: []Metric{{Name: "failures", Standing: NoWorse, CandidateCount: 1_234_567}}}).
		summarize(&Plan{CandidateVersion: 2}); !strings.HasSuffix(got, "; 1,234,567 episodes, or requests without one") {
		t.Error(got)
	}
}
