package rollout

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// times returns n compute times that rise evenly up to longest.
func times(n int, longest time.Duration) []time.Duration {
	sample := make([]time.Duration, n)
	for i := range sample {
		sample[i] = longest * time.Duration(i+1) / time.Duration(n)
	}
	return sample
}

// fine is evidence that promotes by every default.
func fine() Evidence {
	return Evidence{
		Baseline:  Requests{Count: 1000, Asked: 1000, Compute: times(1000, 10*time.Millisecond)},
		Candidate: Requests{Count: 1000, Asked: 1000, Compute: times(1000, 10*time.Millisecond)},
	}
}

func outcomes(baseline, candidate float64) []Stratum {
	var s Stratum
	for i := range 100 {
		s.Baseline.Add(baseline + float64(i%2))
		s.Candidate.Add(candidate + float64(i%2))
	}
	return []Stratum{s}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		gate    Gate
		change  func(*Evidence)
		verdict Verdict
		check   string // that decides
		reason  string // part of it
	}{
		{
			"all is well",
			Gate{},
			func(*Evidence) {}, Promote, "requests",
			"1000 requests of the candidate in this stage, 100 needed",
		},
		{"no evidence", Gate{}, func(e *Evidence) { *e = Evidence{} }, Hold, "errors", "no request"},
		{"too few requests", Gate{}, func(e *Evidence) { e.Candidate.Count = 99 }, Hold, "requests", "99 requests"},
		{
			"enough by its own number",
			Gate{MinRequests: 50},
			func(e *Evidence) { e.Candidate.Count = 99 }, Promote,
			"requests", "50 needed",
		},
		{
			"one fault in a hundred",
			Gate{},
			func(e *Evidence) { e.Candidate.Faults = 10 }, Promote, "errors",
			"a part of 0.01 against a limit of 0.01",
		},
		{"a few faults too many", Gate{}, func(e *Evidence) { e.Candidate.Faults = 12 }, Hold, "errors", "chance"},
		{
			"many faults too many",
			Gate{},
			func(e *Evidence) { e.Candidate.Faults = 50 }, Rollback, "errors",
			"50 of 1000",
		},
		{
			"faults before there are enough requests",
			Gate{},
			func(e *Evidence) { e.Candidate.Count, e.Candidate.Faults = 5, 5 }, Rollback, "errors", "5 of 5",
		},
		{
			"slower within the limit",
			Gate{},
			func(e *Evidence) { e.Candidate.Compute = times(1000, 14*time.Millisecond) }, Promote, "latency",
			"13.3ms, the baseline's 9.5ms: a ratio of 1.4 ",
		},
		{
			"slower at the edge",
			Gate{},
			func(e *Evidence) { e.Candidate.Compute = times(1000, 15100*time.Microsecond) },
			Hold, "latency", "chance",
		},
		{
			"slower by less than the error of its own p95",
			Gate{},
			func(e *Evidence) { e.Candidate.Compute = times(1000, 15600*time.Microsecond) }, Hold, "latency", "chance",
		},
		{
			"slower",
			Gate{},
			func(e *Evidence) { e.Candidate.Compute = times(1000, 20*time.Millisecond) }, Rollback,
			"latency", "a ratio of 2 against a limit of 1.5",
		},
		{
			"slower than its own limit",
			Gate{MaxLatencyRatio: 1.1},
			func(e *Evidence) { e.Candidate.Compute = times(1000, 14*time.Millisecond) }, Rollback, "latency", "1.1",
		},
		{
			"slower, under another load",
			Gate{},
			func(e *Evidence) { e.Candidate.Compute, e.Apart = times(1000, 20*time.Millisecond), "faster" }, Hold,
			"latency", "a limit of 1.5; that need not be the candidate's: faster",
		},
		{"slower than at an earlier stage", Gate{}, func(e *Evidence) {
			e.Candidate.Compute, e.Baseline.Earlier, e.Apart = times(1000, 20*time.Millisecond), true, "earlier"
		}, Rollback, "latency", "earlier stage"},
		{
			"nothing of the baseline",
			Gate{},
			func(e *Evidence) { e.Baseline.Compute = nil }, Hold, "latency",
			"0 of the baseline",
		},
		{
			"of an earlier stage",
			Gate{},
			func(e *Evidence) { e.Baseline.Earlier = true }, Promote, "latency",
			"earlier stage",
		},
		{"never in the shadow", Gate{MinAgreement: 0.9}, func(*Evidence) {}, Hold, "agreement", "must name it"},
		{
			"agreed",
			Gate{MinAgreement: 0.9},
			func(e *Evidence) { e.Agreed, e.Shadowed = 95, 100 }, Promote, "agreement",
			"95 of 100",
		},
		{
			"agreed too few",
			Gate{MinAgreement: 0.9},
			func(e *Evidence) { e.Agreed, e.Shadowed = 50, 50 }, Hold,
			"agreement", "100 are needed",
		},
		{
			"agreed barely not",
			Gate{MinAgreement: 0.9},
			func(e *Evidence) { e.Agreed, e.Shadowed = 89, 100 }, Hold,
			"agreement", "chance",
		},
		{
			"disagreed",
			Gate{MinAgreement: 0.9},
			func(e *Evidence) { e.Agreed, e.Shadowed = 60, 100 }, Rollback,
			"agreement", "0.6",
		},
		{"outcome not asked for", Gate{}, func(e *Evidence) { e.Strata = outcomes(1, 0) }, Promote, "requests", ""},
		{
			"no outcomes",
			Gate{Outcome: "reward"},
			func(*Evidence) {}, Hold, "episodes",
			`"reward" reported of 0 episodes`,
		},
		{
			"better",
			Gate{Outcome: "reward"},
			func(e *Evidence) { e.Strata = outcomes(1, 2) }, Promote, "outcome",
			"+1 from the baseline's, with confidence 0.95",
		},
		{
			"worse",
			Gate{Outcome: "reward"},
			func(e *Evidence) { e.Strata = outcomes(2, 1) }, Rollback, "outcome",
			"more is better",
		},
		{"the same", Gate{Outcome: "reward"}, func(e *Evidence) { e.Strata = outcomes(1, 1) }, Hold, "outcome", "+0 "},
		{
			"the same, with a margin",
			Gate{Outcome: "reward", Margin: 0.5},
			func(e *Evidence) { e.Strata = outcomes(1, 1) }, Promote, "outcome", "margin is 0.5",
		},
		{
			"worse within the margin",
			Gate{Outcome: "reward", Margin: 1.5},
			func(e *Evidence) { e.Strata = outcomes(2, 1) }, Promote, "outcome", "",
		},
		{
			"worse by the margin itself",
			Gate{Outcome: "reward", Margin: 1},
			func(e *Evidence) { e.Strata = outcomes(2, 1) }, Hold, "outcome", "",
		},
		{
			"costs less",
			Gate{Outcome: "cost", LowerIsBetter: true},
			func(e *Evidence) { e.Strata = outcomes(2, 1) },
			Promote, "outcome", "less is better",
		},
		{
			"costs more",
			Gate{Outcome: "cost", LowerIsBetter: true},
			func(e *Evidence) { e.Strata = outcomes(1, 2) },
			Rollback, "outcome", "",
		},
		{
			"costs more within the margin",
			Gate{Outcome: "cost", LowerIsBetter: true, Margin: 1.5},
			func(e *Evidence) { e.Strata = outcomes(1, 2) }, Promote, "outcome", "",
		},
		{
			"too few episodes",
			Gate{Outcome: "reward", MinEpisodes: 101},
			func(e *Evidence) { e.Strata = outcomes(1, 9) },
			Hold, "outcome", "101 episodes",
		},
		{"never side by side", Gate{Outcome: "reward"}, func(e *Evidence) {
			e.Strata = []Stratum{{Baseline: repeated(1, 50)}, {Candidate: repeated(2, 50)}}
		}, Hold, "outcome", "no stage has"},
		{
			"not a number",
			Gate{Outcome: "reward"},
			func(e *Evidence) { e.Strata = outcomes(1, math.NaN()) }, Hold,
			"outcome", "NaN",
		},
		{"better, but failing", Gate{Outcome: "reward"}, func(e *Evidence) {
			e.Strata = outcomes(1, 2)
			e.Candidate.Faults = 50
		}, Rollback, "errors", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fine()
			c.change(&e)
			report := Judge(c.gate, e)
			i := slices.IndexFunc(report.Checks, func(k GateCheck) bool { return k.Name == c.check })
			if i < 0 || report.Verdict != c.verdict || report.Checks[i].Verdict != c.verdict ||
				!strings.Contains(report.Checks[i].Reason, c.reason) {
				t.Errorf("expected %v by %s with %q, found %v by %+v", c.verdict, c.check, c.reason, report.Verdict,
					report.Checks)
			}
		})
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
	} {
		p := valid
		change(&p)
		var wrong *PlanError
		if err := p.withDefaults().Check(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestP95(t *testing.T) {
	low, mid, high := p95(times(1000, time.Second))
	if low != 929*time.Millisecond || mid != 950*time.Millisecond || high != 972*time.Millisecond {
		t.Errorf("of 1000: %v, %v, %v", low, mid, high)
	}
	if _, _, high := p95(times(209, time.Second)); high != math.MaxInt64 {
		t.Errorf("of 209: an upper bound of %v", high)
	}
	if _, _, high := p95(times(210, time.Second)); high == math.MaxInt64 {
		t.Error("of 210: no upper bound")
	}
	if low, mid, _ := p95([]time.Duration{7}); low != 7 || mid != 7 {
		t.Errorf("of one: %v, %v", low, mid)
	}
}
