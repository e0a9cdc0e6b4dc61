package rollout

import (
	"fmt"
	"math"
	"time"
)

func checkRequests(g Gate, e Evidence) GateCheck {
	c := GateCheck{Name: "requests", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d requests of the candidate in this stage, %d needed", e.Candidate.Count, g.MinRequests)
	if e.Candidate.Count < g.MinRequests {
		c.Verdict = Hold
	}
	return c
}

func checkErrors(g Gate, e Evidence) (GateCheck, Metric) {
	r := e.Candidate
	m := Metric{
		Name: "errors", Margin: g.MaxErrorRate, BaselineCount: e.Baseline.Count, CandidateCount: r.Count,
		Baseline: rate(e.Baseline.Faults, e.Baseline.Count), Candidate: rate(r.Faults, r.Count),
	}
	if r.Count > 0 {
		low, high := partBounds(r.Faults, r.Count, g.Alpha)
		m.between(-high, -*m.Candidate, -low)
	}
	c := GateCheck{Name: "errors", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d of %d requests of the candidate failed, a part of %s against a limit of %s",
		r.Faults, r.Count, part(r.Faults, r.Count), number(g.MaxErrorRate))
	switch {
	case r.Count == 0:
		c.Verdict = Hold
		c.Reason = fmt.Sprintf("no request of the candidate in this stage, %d needed", g.MinRequests)
	case surelyAbove(r.Faults, r.Count, g.MaxErrorRate, g.Alpha):
		c.Verdict = Rollback
	case r.Count < g.MinRequests:
		c.Verdict = Hold
		c.Reason += fmt.Sprintf("; %d requests are needed", g.MinRequests)
	case float64(r.Faults) > g.MaxErrorRate*float64(r.Count):
		c.Verdict = Hold
		c.Reason += ", which may still be chance"
	}
	return c, m
}

// checkLatency compares percentiles. The bounds of three standard errors are for one look, not for all looks at once.
func checkLatency(g Gate, e Evidence) (GateCheck, Metric) {
	b, c := e.Baseline, e.Candidate
	m := Metric{
		Name: "latency", Margin: g.MaxLatencyRatio - 1,
		BaselineCount: int64(len(b.Compute)), CandidateCount: int64(len(c.Compute)),
	}
	check := GateCheck{Name: "latency", Verdict: Hold}
	enough := func(r Requests) bool {
		return len(r.Compute) > 0 && (r.Earlier || int64(len(r.Compute)) >= min(g.MinRequests, sampleSize))
	}
	if !enough(b) || !enough(c) {
		check.Reason = fmt.Sprintf(
			"compute time measured of %d requests of the candidate and %d of the baseline, %d of each needed",
			len(c.Compute), len(b.Compute), min(g.MinRequests, sampleSize))
		return check, m
	}
	baselineLow, baseline, baselineHigh := p95(b.Compute)
	candidateLow, candidate, candidateHigh := p95(c.Compute)
	ratio := float64(candidate) / float64(max(baseline, 1))
	m.Baseline, m.Candidate = known(milliseconds(baseline)), known(milliseconds(candidate))
	m.Difference = known(1 - ratio)
	if candidateHigh < math.MaxInt64 {
		m.Low = known(1 - float64(candidateHigh)/float64(max(baselineLow, 1)))
	}
	if baselineHigh < math.MaxInt64 {
		m.High = known(1 - float64(candidateLow)/float64(max(baselineHigh, 1)))
	}
	check.Reason = fmt.Sprintf(
		"the candidate's p95 of compute time is %v, the baseline's %v: a ratio of %s against a limit of %s",
		candidate.Round(time.Microsecond), baseline.Round(time.Microsecond), number(ratio), number(g.MaxLatencyRatio))
	if b.Earlier {
		check.Reason += " (the baseline's is of an earlier stage)"
	}
	switch {
	case ratio <= g.MaxLatencyRatio:
		check.Verdict = Promote
	case float64(candidateLow) <= g.MaxLatencyRatio*float64(baselineHigh):
		check.Reason += ", which may still be chance"
	case e.Apart != "" && !b.Earlier: // more requests at once are larger batches, of which each takes longer
		check.Reason += "; that need not be the candidate's: " + e.Apart
	default:
		check.Verdict = Rollback
	}
	return check, m
}

func checkAgreement(g Gate, e Evidence) (GateCheck, Metric) {
	m := Metric{
		Name: "agreement", Margin: 1 - g.MinAgreement, CandidateCount: e.Shadowed, Candidate: rate(e.Agreed, e.Shadowed),
	}
	if e.Shadowed > 0 {
		low, high := partBounds(e.Shadowed-e.Agreed, e.Shadowed, g.Alpha)
		m.between(-high, *m.Candidate-1, -low)
	}
	c := GateCheck{Name: "agreement", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d of %d shadowed requests agreed, a part of %s against at least %s",
		e.Agreed, e.Shadowed, part(e.Agreed, e.Shadowed), number(g.MinAgreement))
	switch {
	case e.Shadowed == 0:
		c.Verdict = Hold
		c.Reason = "no request of the candidate in the shadow was compared: the traffic must name it as a shadow"
	case surelyAbove(e.Shadowed-e.Agreed, e.Shadowed, 1-g.MinAgreement, g.Alpha):
		c.Verdict = Rollback
	case e.Shadowed < g.MinRequests:
		c.Verdict = Hold
		c.Reason += fmt.Sprintf("; %d are needed", g.MinRequests)
	case float64(e.Agreed) < g.MinAgreement*float64(e.Shadowed):
		c.Verdict = Hold
		c.Reason += ", which may still be chance"
	}
	return c, m
}

func checkEpisodes(g Gate, e Evidence) GateCheck {
	b, n := episodes(e.Strata)
	c := GateCheck{Name: "episodes", Verdict: Promote}
	waitB, waitN := e.BaselineEpisodes.Waiting, e.CandidateEpisodes.Waiting
	c.Reason = fmt.Sprintf("%q reported of %d episodes of the candidate and %d of the baseline, ", g.Outcome, n+waitN,
		b+waitB)
	if waitB+waitN > 0 {
		c.Reason += fmt.Sprintf("of which %d and %d count and the others wait for episodes that began before them (%d "+
			"and %d are unfinished), %v at most; ",
			n, b, e.CandidateEpisodes.Unfinished, e.BaselineEpisodes.Unfinished, longest)
	}
	c.Reason += fmt.Sprintf("%d of each needed", g.MinEpisodes)
	if min(b, n) < g.MinEpisodes {
		c.Verdict = Hold
	}
	return c
}

// checkLost looks at the episodes that ended without a report: nobody reports on a policy that wrecks its robots.
func checkLost(g Gate, e Evidence) (GateCheck, Metric) {
	b, n := e.BaselineEpisodes, e.CandidateEpisodes
	m := Metric{
		Name: "lost", Margin: g.MaxLostIncrease, BaselineCount: b.Begun, CandidateCount: n.Begun,
		Baseline: rate(b.Lost, b.Begun), Candidate: rate(n.Lost, n.Begun),
	}
	m.within(e.Lost, g.Alpha)
	c := GateCheck{Name: "lost", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d of %d episodes of the candidate and %d of %d of the baseline were lost, with nothing "+
		"heard of them for half a minute and no %q reported; %d and %d are unfinished",
		n.Lost, n.Begun, b.Lost, b.Begun, g.Outcome, n.Unfinished, b.Unfinished)
	if min(b.Begun, n.Begun) == 0 {
		return c, m
	}
	c.Reason += fmt.Sprintf("; a part of %s against %s, and %s more is allowed", part(n.Lost, n.Begun),
		part(b.Lost, b.Begun), number(g.MaxLostIncrease))
	switch exceed(e.Lost, n.Lost, g.MaxLostIncrease, g.Alpha) {
	case surely:
		c.Verdict = Rollback
	case perhaps:
		c.Reason += "; the excess may still be chance"
		if !e.Complete {
			c.Verdict = Hold
		}
	case no:
	}
	return c, m
}

// checkOutcome promotes a candidate that is surely less than the margin worse, and rolls one back that is surely worse
// by more than the margin.
func checkOutcome(g Gate, e Evidence) (GateCheck, Metric) {
	c := GateCheck{Name: "outcome", Verdict: Hold}
	b, n := episodes(e.Strata)
	m := Metric{
		Name: "outcome", Margin: g.Margin, BaselineCount: b, CandidateCount: n,
		Baseline:  pooled(e.Strata, func(s *Stratum) *Moments { return &s.Baseline }),
		Candidate: pooled(e.Strata, func(s *Stratum) *Moments { return &s.Candidate }),
	}
	if min(b, n) < g.MinEpisodes {
		c.Reason = fmt.Sprintf("%q is compared from %d episodes of each version", g.Outcome, g.MinEpisodes)
		return c, m
	}
	estimate, radius := difference(e.Strata, g.Alpha)
	if math.IsInf(radius, 1) {
		c.Reason = fmt.Sprintf("no stage has episodes of both versions with %q", g.Outcome)
		return c, m
	}
	better := estimate
	if g.LowerIsBetter {
		better = -estimate
	}
	m.between(better-radius, better, better+radius)
	switch {
	// A difference that is not a number satisfies neither.
	case better-radius > -g.Margin:
		c.Verdict = Promote
	case better+radius < -g.Margin:
		c.Verdict = Rollback
	}
	direction := "more"
	if g.LowerIsBetter {
		direction = "less"
	}
	c.Reason = fmt.Sprintf("the candidate's mean of %q differs by %+.4g from the baseline's, with confidence %s "+
		"between %+.4g and %+.4g, where %s is better and the margin is %s",
		g.Outcome, estimate, number(1-g.Alpha), estimate-radius, estimate+radius, direction, number(g.Margin))
	return c, m
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func number(x float64) string { return fmt.Sprintf("%.4g", x) }

// part returns hits/tries in words; of no tries it is NaN.
func part(hits, tries int64) string {
	return number(float64(hits) / float64(tries))
}
