package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/race"
)

// TestExceedsCalibration: with a truth at the margin itself, and a look after every few requests, it is sure of an
// excess in at most alpha of the runs. Both versions fail ever more or less often meanwhile, as they do when a server
// is overloaded now and then.
func TestExceedsCalibration(t *testing.T) {
	skipCalibration(t)
	const alpha, requests = 0.05, 4000
	for _, c := range []struct {
		rate, margin, share float64
	}{
		{0, 0.01, 0.5},
		{0, 0.01, 0.05},
		{0.001, 0.01, 0.5},
		{0.05, 0.01, 0.5},
		{0.05, 0.01, 0.02},
		{0.3, 0.01, 0.5},
		{0.3, 0.05, 0.1},
		{0.1, 0.0001, 0.5},
	} {
		wrong := 0
		for i := range uint64(simulated) {
			r := rand.New(rand.NewPCG(i, 21))
			var hits, tries [2]int64
			for n := range requests {
				side, rate := baseline, c.rate
				if r.Float64() < c.share {
					side, rate = candidate, c.rate+c.margin
				}
				if n/500%2 == 1 {
					rate *= 1.5 // the load is higher
				}
				tries[side]++
				if r.Float64() < rate {
					hits[side]++
				}
				if n%20 == 0 && tries[candidate] >= 20 &&
					exceeds(hits[baseline], tries[baseline], hits[candidate], tries[candidate], 1.25*c.margin,
						alpha) == surely {
					wrong++
					break
				}
			}
		}
		t.Logf("rate %v, margin %v, share %v: sure in %d of %d", c.rate, c.margin, c.share, wrong, simulated)
		if float64(wrong)/simulated > limit(alpha) {
			t.Errorf("rate %v, margin %v, share %v: sure in %d of %d runs", c.rate, c.margin, c.share, wrong, simulated)
		}
	}
}

// TestExceedsPower: an excess that matters is found soon.
func TestExceedsPower(t *testing.T) {
	for _, c := range []struct {
		baseline, candidate float64
		requests            int64 // of each
	}{{0, 0.05, 1000}, {0.01, 0.14, 200}, {0.1, 0.2, 1000}, {0, 1, 10}} {
		found := 0
		for i := range uint64(simulated) {
			r := rand.New(rand.NewPCG(i, 22))
			var hits [2]int64
			for range c.requests {
				for side, rate := range []float64{c.baseline, c.candidate} {
					if r.Float64() < rate {
						hits[side]++
					}
				}
			}
			if exceeds(hits[0], c.requests, hits[1], c.requests, 0.01, 0.05) == surely {
				found++
			}
		}
		t.Logf("%v after %v, %d requests of each: found in %d of %d", c.candidate, c.baseline, c.requests, found,
			simulated)
		if found < simulated*90/100 {
			t.Errorf("%v after %v, %d requests of each: found in %d of %d", c.candidate, c.baseline, c.requests, found,
				simulated)
		}
	}
}

// ended counts how so many requests ended: answered, or with one of the codes.
func ended(asked int64, ends map[Ending]int64) Requests {
	var c counter
	for e, n := range ends {
		for range n {
			c.observe(e)
		}
		asked -= n
	}
	for range asked {
		c.observe(answered(time.Millisecond))
	}
	return c.requests()
}

func TestFailuresOfEveryCodeCount(t *testing.T) {
	late, full := Ending{Code: "DeadlineExceeded", Overload: true}, Ending{Code: "ResourceExhausted", Overload: true}
	gone, refused := Ending{Code: "Canceled"}, Ending{Code: "InvalidArgument"}
	type ends = map[Ending]int64
	for _, c := range []struct {
		name                string
		baseline, candidate Requests
		apart               string
		gate                Gate
		want                Verdict
		reason              string
	}{
		{
			"none", ended(1000, nil), ended(1000, nil), "",
			Gate{},
			Promote,
			"0 of 1000 requests of the candidate failed without a fault of the model, 0 of 1000 of the baseline: a " +
				"part of 0 against 0, and 0.01 more is allowed",
		},
		{
			"late", ended(1000, ends{late: 2}), ended(1000, ends{late: 140}), "",
			Gate{},
			Rollback,
			"140 of 1000 requests of the candidate failed without a fault of the model (by code: DeadlineExceeded " +
				"140), 2 of 1000 of the baseline (by code: DeadlineExceeded 2): a part of 0.14 against 0.002, and " +
				"0.01 more is allowed",
		},
		{
			"refused for want of capacity", ended(1000, nil), ended(1000, ends{full: 140}), "",
			Gate{},
			Rollback,
			"ResourceExhausted 140",
		},
		{
			"given up by the client", ended(1000, nil), ended(1000, ends{gone: 140}), "",
			Gate{},
			Rollback,
			"Canceled 140",
		},
		{
			"inputs that only the candidate refuses", ended(1000, nil), ended(1000, ends{refused: 140}), "",
			Gate{},
			Rollback, "InvalidArgument 140",
		},
		{
			"of several codes", ended(9000, nil), ended(1000, ends{late: 30, full: 30, gone: 30}), "",
			Gate{},
			Rollback,
			"90 of 1000 requests of the candidate failed without a fault of the model (by code: Canceled 30, " +
				"DeadlineExceeded 30, ResourceExhausted 30)",
		},
		{
			"overload of both alike", ended(9000, ends{late: 1260, full: 900}), ended(1000, ends{late: 140, full: 100}),
			"",
			Gate{},
			Promote, "a part of 0.24 against 0.24",
		},
		{"fewer than the baseline", ended(1000, ends{late: 140}), ended(1000, nil), "", Gate{}, Promote, "0 of 1000"},
		{"a few more", ended(1000, nil), ended(1000, ends{late: 9}), "", Gate{}, Promote, "0.009 against 0,"},
		{"perhaps too many", ended(1000, nil), ended(1000, ends{late: 12}), "", Gate{}, Hold, "may still be chance"},
		{
			"many, which is allowed", ended(1000, nil), ended(1000, ends{late: 140}), "",
			Gate{MaxFailureIncrease: 0.2},
			Promote, "0.2 more is allowed",
		},
		{"all of few", ended(1000, nil), ended(50, ends{late: 50}), "", Gate{}, Hold, "100 requests are needed"},
		{
			"nothing to compare with", ended(0, nil), ended(1000, ends{late: 140}), "",
			Gate{},
			Hold,
			"no request of the baseline",
		},
		{
			"overload at another time", ended(1000, nil), ended(1000, ends{late: 140}), "it was another day",
			Gate{},
			Hold,
			"140 of them are overload, which need not be the candidate's: it was another day",
		},
		{
			"more than overload at another time", ended(1000, nil), ended(1000, ends{late: 140, gone: 140}),
			"it was another day",
			Gate{},
			Rollback, "Canceled 140",
		},
		{
			"faults have a limit of their own", ended(1000, nil), ended(1000, ends{faulty: 140}),
			"",
			Gate{MaxErrorRate: 0.2},
			Promote, "0 of 1000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Evidence{Baseline: c.baseline, Candidate: c.candidate, Apart: c.apart}
			report := Judge(c.gate, e)
			check := named(report, "failures")
			if check.Verdict != c.want || !strings.Contains(check.Reason, c.reason) {
				t.Errorf("%v, %s; want %v, %q", check.Verdict, check.Reason, c.want, c.reason)
			}
			if c.want != Promote && report.Verdict < c.want {
				t.Errorf("the gate says %v", report.Verdict)
			}
		})
	}
	got := Judge(Gate{}, Evidence{Baseline: ended(10, ends{late: 3}), Candidate: ended(5, ends{full: 1})}).Codes
	if d := cmp.Diff([]CodeCount{{"DeadlineExceeded", 3, 0}, {"OK", 7, 4}, {"ResourceExhausted", 0, 1}}, got); d != "" {
		t.Error(d)
	}
}

// TestNoMixtureWithMoreFailuresIsPromoted generates mixtures of codes of both versions.
func TestNoMixtureWithMoreFailuresIsPromoted(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, and minutes under the race detector")
	}
	codes := []Ending{
		{Code: "DeadlineExceeded", Overload: true},
		{Code: "ResourceExhausted", Overload: true},
		{Code: "Unavailable", Overload: true},
		{Code: "Canceled"},
		{Code: "InvalidArgument"},
		{Code: "Unknown"},
		{Code: "Internal"},
		faulty,
	}
	verdicts := map[Verdict]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 23))
		side := func(rate float64) (Requests, map[Ending]int64) {
			asked, ends := int64(100+r.IntN(3000)), map[Ending]int64{}
			for range asked {
				if r.Float64() < rate {
					ends[codes[r.IntN(len(codes))]]++
				}
			}
			q := ended(asked, ends)
			q.Compute = times(1000, time.Millisecond)
			return q, ends
		}
		rate := 0.3 * r.Float64() * r.Float64()
		b, _ := side(rate)
		n, ends := side(min(1, rate*2*r.Float64()+0.1*r.Float64()))
		e := Evidence{Baseline: b, Candidate: n}
		if r.IntN(4) == 0 {
			e.Apart = "another day"
		}
		report := Judge(Gate{}, e)
		verdicts[report.Verdict]++
		// Computed without any code of ours: the failed requests, and all requests.
		var faults, failed int64
		for e, n := range ends {
			if e.Fault {
				faults += n
			} else {
				failed += n
			}
		}
		was := float64(b.Failed) / float64(b.Asked)
		tooMany := float64(failed)/float64(n.Asked) > was+0.01 ||
			float64(faults)/float64(faults+n.Codes[Answered]) > 0.01
		if tooMany && report.Verdict == Promote {
			t.Errorf("seed %d: PROMOTE with %v of %d, when %v of %d failed of the baseline", seed, n.Codes, n.Asked,
				b.Codes, b.Asked)
		}
		if !tooMany && report.Verdict != Promote {
			t.Errorf("seed %d: %v with %v of %d, when %v of %d failed of the baseline: %+v", seed, report.Verdict,
				n.Codes, n.Asked, b.Codes, b.Asked, report.Checks)
		}
		var sum CodeCount
		for _, c := range report.Codes {
			sum.Baseline, sum.Candidate = sum.Baseline+c.Baseline, sum.Candidate+c.Candidate
		}
		if sum.Baseline != b.Asked || sum.Candidate != n.Asked {
			t.Errorf("seed %d: the codes sum up to %+v of %d and %d requests", seed, sum, b.Asked, n.Asked)
		}
	}
	t.Log(verdicts)
	for _, v := range []Verdict{Promote, Hold, Rollback} {
		if verdicts[v] < 100 {
			t.Errorf("%v came only %d times", v, verdicts[v])
		}
	}
}

// TestFailuresInARollout has a candidate that is late now and then, while the baseline is not, and then both in the
// same trouble.
func TestFailuresInARollout(t *testing.T) {
	late := Ending{Code: "DeadlineExceeded", Overload: true}
	for _, c := range []struct {
		name                string
		baseline, candidate int // of 20 requests so many are late
		want                State
	}{{"the candidate", 0, 3, RolledBack}, {"both", 3, 3, Running}} {
		t.Run(c.name, func(t *testing.T) {
			within(t, nil, func(t *testing.T, b *bench) {
				b.start(t, func(p *Plan) { p.Gate, p.Stages = Gate{}, []float64{50, 100} })
				for i := range 400 {
					for side, n := range []int{c.baseline, c.candidate} {
						if i%20 < n {
							b.Observe("m", int64(side+1), late)
						} else {
							b.Observe("m", int64(side+1), answered(time.Millisecond))
						}
					}
				}
				pass(2 * time.Second)
				r := b.state(t)
				if r.State != c.want {
					t.Fatalf("%v, want %v: %+v", r.State, c.want, r.Report.Checks)
				}
				if c.want == RolledBack {
					expectEnd(t, r, RolledBack, "60 of 400 requests of the candidate failed without a fault of the "+
						"model (by code: DeadlineExceeded 60)")
					return
				}
				pass(time.Minute)
				if r = b.state(t); r.Stage != 1 {
					t.Fatalf("stage %d: what makes both fail holds the candidate: %+v", r.Stage, r.Report.Checks)
				}
				// With all traffic at the candidate there is nothing to compare with but the past.
				for range 200 {
					b.Observe("m", 2, late)
				}
				pass(2 * time.Second)
				r = b.state(t)
				if check := named(r.Report, "failures"); check.Verdict != Hold ||
					!strings.Contains(check.Reason, "60 of 400 of the baseline") ||
					!strings.Contains(check.Reason, "of an earlier stage") {
					t.Errorf("in the last stage: %+v", check)
				}
			})
		})
	}
}

func named(r Report, name string) GateCheck {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return GateCheck{Reason: fmt.Sprintf("no check %q", name)}
}
