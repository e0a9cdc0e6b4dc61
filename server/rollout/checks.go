package rollout

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// checkRequests holds the candidate until enough of its requests were answered in this stage. It never rolls back.
func checkRequests(g Gate, e *Evidence) GateCheck {
	n := e.Requests.Answered[candidate]
	c := GateCheck{Name: "requests", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d requests of the candidate were answered in this stage, %d needed", n, g.MinRequests)
	if n < g.MinRequests {
		c.Verdict = Hold
	}
	return c
}

// checkEpisodes holds the candidate until enough episodes with an outcome were counted of both versions, and says what
// it still waits for. It never rolls back.
func checkEpisodes(g Gate, e *Evidence) GateCheck {
	b, n := e.Outcome.Count[baseline], e.Outcome.Count[candidate]
	c := GateCheck{Name: "episodes", Verdict: Promote}
	waitB, waitN := e.Fates[baseline].Waiting, e.Fates[candidate].Waiting
	c.Reason = fmt.Sprintf("%q counts of %d episodes of the candidate and %d of the baseline, ", g.Outcome, n, b)
	if waitB+waitN > 0 {
		c.Reason += fmt.Sprintf("and waits of %d and %d for episodes that began before them (%d and %d are unfinished); ",
			waitN, waitB, e.Fates[candidate].Unfinished, e.Fates[baseline].Unfinished)
	}
	least := g.leastEpisodes()
	c.Reason += fmt.Sprintf("%d of each needed", least)
	if !e.Range.Declared && least == leastUndeclared {
		c.Reason += ", because outcome_min and outcome_max are not declared"
	}
	if min(b, n) < least {
		c.Verdict = Hold
	}
	return c
}

// leastEpisodes is how many episodes with an outcome there must be of each version.
func (g Gate) leastEpisodes() int64 {
	if g.OutcomeMin == nil || g.OutcomeMax == nil {
		return max(g.MinEpisodes, leastUndeclared)
	}
	return g.MinEpisodes
}

// comparison is what one check of the promotion gate looks at: by how much the mean of a number is larger with the
// candidate. A larger number is worse. It has a verdict (Promote, Hold or Rollback) and the Metric behind it.
type comparison struct {
	name string
	// absent is why there is nothing to compare, if there is not.
	absent string
	// says is what is compared, notes what else there is to know, and units of what there must be more.
	says, notes, units string
	limit, alpha       float64
	// of are the numbers of units that are over, and besides are more by which the candidate may be worse.
	of      *Score
	besides []*Score
	// People see zero + scale·r for a number r.
	zero, scale float64
	early       bool // it is too early for a verdict
}

// comparisons are what a promotion gate asks for: always errors, latency and failures, and agreement, outcome and lost
// episodes where the promotion gate names a limit for them.
func (g Gate) comparisons(e *Evidence) []comparison {
	errors := g.parts("errors", "failed with a fault of the model", &e.Errors, g.MaxErrorRate)
	// Faults since the candidate has all traffic tell as well, though nothing is compared with them.
	errors.besides = append(errors.besides, &e.Alone)
	if e.Alone.Count[candidate] > 0 {
		errors.notes = "; of the candidate's since it has all traffic " + number(e.Alone.mean(candidate))
	}
	all := []comparison{errors, g.latency(e)}
	if g.MinAgreement > 0 {
		all = append(all, g.agreement(e))
	}
	if g.Outcome != "" {
		all = append(all, g.outcome(e), g.lost(e))
	}
	failures := g.parts("failures", "failed otherwise", &e.Failures, g.MaxFailureIncrease)
	failures.notes = codeList("the candidate", candidate, e) + codeList("the baseline", baseline, e)
	return append(all, failures)
}

// ofRequests names the units that most checks count: the requests of an episode are no independent draws, so that an
// episode is one unit, as is a request without one.
const ofRequests = "episodes, or requests without one,"

// parts compares parts of requests, such as the part that failed. The score of whole units decides promotions; that of
// first requests may tell sooner that a candidate fails.
func (g Gate) parts(name, what string, p *paced, limit float64) comparison {
	s := &p[whole]
	c := comparison{
		name: name, units: ofRequests, limit: limit, alpha: g.Alpha, of: s, besides: []*Score{&p[first]}, scale: 1,
		absent: "no requests of both versions to compare by how many " + what,
		says: fmt.Sprintf("a part of %s of the candidate's requests %s, and %s of the baseline's", number(s.mean(candidate)),
			what, number(s.mean(baseline))),
	}
	if s.Count[candidate] == 0 {
		c.says = fmt.Sprintf("no request of the candidate yet, and a part of %s of the baseline's %s",
			number(s.mean(baseline)), what)
	}
	if p[first].Count[candidate] > s.Count[candidate] {
		c.says += fmt.Sprintf(" (of the first %d of each episode %s and %s)", early, number(p[first].mean(candidate)),
			number(p[first].mean(baseline)))
	}
	return c
}

// latency compares which part of the answers took the model longer than they may: the candidate's longer than
// MaxLatencyRatio times the baseline's p95 of compute time, the baseline's longer than that p95. Such an answer counts
// as slow. Whether it was late, after the target of its request, is not looked at.
func (g Gate) latency(e *Evidence) comparison {
	c := g.parts("latency", fmt.Sprintf("took longer than they may (%s times the baseline's p95 of compute time, and "+
		"that itself for the baseline's)", number(g.MaxLatencyRatio)), &e.Slow, g.MaxErrorRate)
	// The part of slow answers may exceed the baseline's by as much as the part of faults may.
	if !e.P95[baseline].known() {
		c.absent = fmt.Sprintf("the baseline's p95 of compute time is known from %d requests on", firsts)
	}
	c.notes = fmt.Sprintf("; the p95 is %v of the baseline", e.P95[baseline].value().Round(time.Microsecond))
	if own := e.P95[candidate].value(); own > 0 {
		c.notes += fmt.Sprintf(" and about %v of the candidate", own.Round(time.Microsecond))
	}
	return c
}

// agreement looks at the requests that the candidate was shown as a shadow.
func (g Gate) agreement(e *Evidence) comparison {
	s := &e.Disagreement
	c := comparison{
		name: "agreement", units: ofRequests, limit: 1 - g.MinAgreement, alpha: g.Alpha, of: s, zero: 1, scale: -1,
		absent: "no request of the candidate in the shadow was compared: the traffic must name it as a shadow",
		says: fmt.Sprintf("a part of %s of the shadowed requests agreed, by episodes, against at least %s",
			number(1-s.mean(candidate)), number(g.MinAgreement)),
	}
	n := func(outcome string) int64 { return e.Shown[outcome][candidate] }
	c.notes = fmt.Sprintf("; of %d requests for it %d were dropped, %d skipped, and it failed on %d",
		n("done")+n("failed")+n("dropped")+n("skipped"), n("dropped"), n("skipped"), n("failed"))
	return c
}

// lost looks at the episodes that ended without a report: nobody reports on a policy that wrecks its robots.
func (g Gate) lost(e *Evidence) comparison {
	b, n := &e.Fates[baseline], &e.Fates[candidate]
	c := comparison{
		name: "lost", units: "episodes", limit: g.MaxLostIncrease, alpha: g.Alpha, of: &e.Lost, scale: 1,
		says: fmt.Sprintf("%d of %d episodes of the candidate and %d of %d of the baseline were lost, with nothing heard of "+
			"them for half a minute and no %q reported", n.Lost, n.Begun, b.Lost, b.Begun, g.Outcome),
	}
	c.absent = c.says
	return c
}

// outcome is promoted by where the candidate is surely less than the margin worse.
func (g Gate) outcome(e *Evidence) comparison {
	s, r := &e.Outcome, &e.Range
	width := r.High - r.Low
	c := comparison{
		name: "outcome", limit: s.At, alpha: r.alpha(g.Alpha), of: s, zero: r.High, scale: -width,
		early:  min(s.Count[baseline], s.Count[candidate]) < g.leastEpisodes(),
		absent: fmt.Sprintf("no outcomes of both versions to compare by %q", g.Outcome),
	}
	// A score has 0 at the better end: numbers count down from High, or up from Low where less is better.
	direction := "more"
	if g.LowerIsBetter {
		c.zero, c.scale, direction = r.Low, width, "less"
	}
	if !r.known() && r.Seen >= learning {
		c.absent = fmt.Sprintf("all outcomes were %s so far, which does not tell how bad one can be: declare outcome_min "+
			"and outcome_max", number(r.Least))
	}
	c.says = fmt.Sprintf("the mean of %q is %s with the candidate and %s with the baseline, where %s is better", g.Outcome,
		number(c.zero+c.scale*s.mean(candidate)), number(c.zero+c.scale*s.mean(baseline)), direction)
	if !r.Declared {
		c.notes = fmt.Sprintf("; this assumes that outcomes lie between %s and %s, as they did so far", number(r.Low),
			number(r.High))
	}
	return c
}

// judge promotes a candidate that surely exceeds the baseline by less than the limit, and rolls back one that surely
// exceeds it by more. All rollbacks of so many ways share alpha: any of the checks alone may roll back, so that each
// needs log(ways) more evidence. A promotion needs every check, and each has the whole alpha.
func (c *comparison) judge(ways int) (GateCheck, Metric) {
	m := Metric{
		Name: c.name, Margin: c.limit * math.Abs(c.scale), BaselineCount: c.of.Count[baseline],
		CandidateCount: c.of.Count[candidate], Baseline: known(c.zero + c.scale*c.of.mean(baseline)),
		Candidate: known(c.zero + c.scale*c.of.mean(candidate)),
	}
	if c.of.Information == 0 {
		return GateCheck{c.name, Hold, c.absent}, m
	}
	low, estimate, high := c.of.Bounds(c.alpha)
	check := GateCheck{Name: c.name, Verdict: Hold}
	check.Reason = fmt.Sprintf("%s: the difference is %s, with confidence %s between %s and %s, and the margin is %s",
		c.says, signed(estimate*c.scale), number(1-c.alpha), signed(min(low*c.scale, high*c.scale)),
		signed(max(low*c.scale, high*c.scale)), number(m.Margin)) + c.notes
	if name, n := c.of.largest(); len(c.of.By) > 1 && !c.of.diverse() {
		check.Reason += fmt.Sprintf("; this rests on %q, who has %d of %d", name, n, m.BaselineCount+m.CandidateCount)
	}
	low, high, moved := c.of.withoutEach(low, high, c.alpha)
	if moved != "" {
		check.Reason += fmt.Sprintf("; without what %q reported it would be elsewhere", moved)
	}
	// In a metric more is better for the candidate: the signs change, and the ends of the interval change places.
	wide := math.Abs(c.scale)
	m.Low, m.Difference, m.High = known(-high*wide), known(-estimate*wide), known(-low*wide)
	// The evidence is a logarithm: at log(1/alpha), chance would bring as much with probability alpha.
	enough := -math.Log(c.alpha)
	switch {
	case c.early:
	case c.worse() >= enough+math.Log(float64(ways)):
		check.Verdict = Rollback
	case c.of.without(below) >= enough:
		check.Verdict = Promote
	case c.units != "":
		check.Reason += c.of.more(c.limit, c.alpha, c.units)
	}
	return check, m
}

// worse returns the logarithm of the evidence that the candidate exceeds the limit, on average of all that tells it.
// The average of such evidence is evidence, as their maximum is not.
func (c *comparison) worse() float64 {
	equal := 1 / float64(1+len(c.besides))
	logs, weights := []float64{c.of.without(above)}, []float64{equal}
	for _, s := range c.besides {
		logs, weights = append(logs, s.wealth(above)), append(weights, equal)
	}
	return average(logs, weights)
}

// more says how many units of the candidate are needed, if there are fewer: as many if the numbers of both versions do
// not differ, and more if they swing.
func (s *Score) more(limit, alpha float64, units string) string {
	c := s.centre(baseline)
	least := math.Ceil(boundary(0, alpha) / limit * max(c, 1-c))
	if float64(s.Count[candidate]) < least && limit > 0 {
		return fmt.Sprintf("; about %.0f %s of the candidate are needed", least, units)
	}
	return ""
}

// codeList lists the codes of requests that were not answered.
func codeList(who string, side int, e *Evidence) string {
	var all []string
	for code, n := range e.Requests.Codes.sorted() {
		if code != Answered && n[side] > 0 {
			all = append(all, fmt.Sprintf("%s %d", code, n[side]))
		}
	}
	if all == nil {
		return ""
	}
	return fmt.Sprintf("; of %s in this stage, by code: %s", who, strings.Join(all, ", "))
}

// codeCounts lists how the requests of the stage ended.
func codeCounts(e *Evidence) (all []CodeCount) {
	for code, n := range e.Requests.Codes.sorted() {
		all = append(all, CodeCount{code, n[baseline], n[candidate]})
	}
	return all
}

func number(x float64) string { return fmt.Sprintf("%.4g", x) }

func signed(x float64) string { return fmt.Sprintf("%+.4g", x) }
