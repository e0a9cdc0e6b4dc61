package rollout

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

func checkRequests(g Gate, e *Evidence) GateCheck {
	n := e.Requests[candidate].Answered
	c := GateCheck{Name: "requests", Verdict: Promote}
	c.Reason = fmt.Sprintf("%d requests of the candidate were answered in this stage, %d needed", n, g.MinRequests)
	if n < g.MinRequests {
		c.Verdict = Hold
	}
	return c
}

// comparison is of parts of requests.
type comparison struct {
	name, what string // of units; the name is that of the check
	of         *paced
	margin     float64
	alone      *Score // what the candidate does since nothing is left to compare with; nil: that is not looked at
}

// check promotes a candidate that surely exceeds the baseline by less than the margin, and rolls back one that surely
// exceeds it by more, be it from the first requests of its units, from whole ones, or without the baseline. A wrong
// rollback by either has a third of alpha.
func (c *comparison) check(g Gate) (GateCheck, Metric) {
	whole := &c.of.Whole
	low, estimate, high := whole.Bounds(g.Alpha)
	m := Metric{
		Name: c.name, Margin: c.margin, BaselineCount: whole.Count[baseline], CandidateCount: whole.Count[candidate],
		Baseline: known(whole.mean(baseline)), Candidate: known(whole.mean(candidate)),
	}
	m.between(-high, -estimate, -low)
	check := GateCheck{Name: c.name, Verdict: Hold}
	if whole.Information == 0 {
		check.Reason = fmt.Sprintf("no requests of both versions to compare by how many %s", c.what)
	} else {
		check.Reason = fmt.Sprintf("a part of %s of the candidate's requests %s, and %s of the baseline's: the difference "+
			"is %s, with confidence %s between %s and %s, and %s is allowed",
			number(whole.mean(candidate)), c.what, number(whole.mean(baseline)), signed(estimate), number(1-g.Alpha),
			signed(low), signed(high), number(c.margin))
	}
	alone := func() bool {
		low, _, _ := c.alone.Bounds(g.Alpha / 3)
		return low > whole.mean(baseline)+c.margin
	}
	switch {
	case whole.above(g.Alpha / 3):
		check.Verdict = Rollback
	case c.of.Early.above(g.Alpha / 3):
		check.Verdict = Rollback
		check.Reason += fmt.Sprintf("; of the first %d requests of an episode %s, and %s of the baseline's", early,
			number(c.of.Early.mean(candidate)), number(c.of.Early.mean(baseline)))
	case c.alone != nil && whole.Information > 0 && alone():
		check.Verdict = Rollback
		check.Reason += fmt.Sprintf("; since it has all traffic %s", number(c.alone.mean(candidate)))
	case whole.below(g.Alpha):
		check.Verdict = Promote
	default:
		check.Reason += whole.more(c.margin, g.Alpha, "episodes, or requests without one,")
	}
	return check, m
}

// more says how many units of the candidate are needed, if there are fewer: as many if the numbers of both versions do
// not differ, and more if they swing.
func (s *Score) more(margin, alpha float64, units string) string {
	c := s.centre(baseline)
	least := math.Ceil(boundary(0, alpha) / margin * max(c, 1-c) / (1 - room))
	if float64(s.Count[candidate]) < least && margin > 0 {
		return fmt.Sprintf("; about %.0f %s of the candidate are needed", least, units)
	}
	return ""
}

func checkErrors(g Gate, e *Evidence) (GateCheck, Metric) {
	c := comparison{"errors", "failed with a fault of the model", &e.Errors, g.MaxErrorRate, &e.Alone}
	return c.check(g)
}

func checkFailures(g Gate, e *Evidence) (GateCheck, Metric) {
	c := comparison{"failures", "failed otherwise", &e.Failures, g.MaxFailureIncrease, nil}
	check, m := c.check(g)
	check.Reason += codeList("the candidate", &e.Requests[candidate]) + codeList("the baseline", &e.Requests[baseline])
	return check, m
}

func checkLatency(g Gate, e *Evidence) (GateCheck, Metric) {
	than := e.P95.value()
	c := comparison{
		"latency", fmt.Sprintf("took longer than they may (%s times the baseline's p95 of compute time, and that itself "+
			"for the baseline's)", number(g.MaxLatencyRatio)), &e.Slow, g.MaxErrorRate, nil,
	}
	if !e.P95.known() {
		return GateCheck{
				Name: "latency", Verdict: Hold,
				Reason: fmt.Sprintf("the baseline's p95 of compute time is known from %d requests on", firsts),
			},
			Metric{Name: "latency", Margin: g.MaxErrorRate}
	}
	check, m := c.check(g)
	check.Reason += fmt.Sprintf("; the p95 is %v of the baseline", than.Round(time.Microsecond))
	if own := e.Requests[candidate].P95.value(); own > 0 {
		check.Reason += fmt.Sprintf(" and about %v of the candidate", own.Round(time.Microsecond))
	}
	return check, m
}

// checkAgreement looks at the requests that the candidate was shown as a shadow.
func checkAgreement(g Gate, e *Evidence) (GateCheck, Metric) {
	s, most := &e.Disagreement, 1-g.MinAgreement
	low, estimate, high := s.Bounds(g.Alpha)
	m := Metric{Name: "agreement", Margin: most, CandidateCount: s.Count[candidate]}
	m.Candidate = known(1 - s.mean(candidate))
	m.between(-high, -estimate, -low)
	c := GateCheck{Name: "agreement", Verdict: Hold}
	if s.Information == 0 {
		c.Reason = "no request of the candidate in the shadow was compared: the traffic must name it as a shadow"
		return c, m
	}
	c.Reason = fmt.Sprintf("a part of %s of the shadowed requests agreed, by episodes, with confidence %s between %s and "+
		"%s, against at least %s", number(1-estimate), number(1-g.Alpha), number(max(0, 1-high)), number(min(1, 1-low)),
		number(g.MinAgreement))
	switch {
	case s.below(g.Alpha):
		c.Verdict = Promote
	case s.above(g.Alpha):
		c.Verdict = Rollback
	default:
		c.Reason += s.more(most, g.Alpha, "episodes, or requests without one,")
	}
	return c, m
}

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

// leastEpisodes is how many there must be of each version.
func (g Gate) leastEpisodes() int64 {
	if g.OutcomeMin == nil || g.OutcomeMax == nil {
		return max(g.MinEpisodes, leastUndeclared)
	}
	return g.MinEpisodes
}

// checkLost looks at the episodes that ended without a report: nobody reports on a policy that wrecks its robots.
func checkLost(g Gate, e *Evidence) (GateCheck, Metric) {
	s := &e.Lost
	low, estimate, high := s.Bounds(g.Alpha)
	m := Metric{
		Name: "lost", Margin: g.MaxLostIncrease, BaselineCount: s.Count[baseline], CandidateCount: s.Count[candidate],
		Baseline: known(s.mean(baseline)), Candidate: known(s.mean(candidate)),
	}
	m.between(-high, -estimate, -low)
	b, n := &e.Fates[baseline], &e.Fates[candidate]
	c := GateCheck{Name: "lost", Verdict: Hold}
	c.Reason = fmt.Sprintf("%d of %d episodes of the candidate and %d of %d of the baseline were lost, with nothing "+
		"heard of them for half a minute and no %q reported", n.Lost, n.Begun, b.Lost, b.Begun, g.Outcome)
	if s.Information > 0 {
		c.Reason += fmt.Sprintf(": the difference is %s, with confidence %s between %s and %s, and %s is allowed",
			signed(estimate), number(1-g.Alpha), signed(low), signed(high), number(g.MaxLostIncrease))
	}
	switch {
	case s.below(g.Alpha):
		c.Verdict = Promote
	case s.above(g.Alpha):
		c.Verdict = Rollback
	default:
		c.Reason += s.more(g.MaxLostIncrease, g.Alpha, "episodes")
	}
	return c, m
}

// checkOutcome promotes a candidate that is surely less than the margin worse, and rolls one back that is surely worse
// by more than the margin.
func checkOutcome(g Gate, e *Evidence) (GateCheck, Metric) {
	c := GateCheck{Name: "outcome", Verdict: Hold}
	s := &e.Outcome
	width := e.Range.High - e.Range.Low
	m := Metric{
		Name: "outcome", Margin: g.Margin, BaselineCount: s.Count[baseline], CandidateCount: s.Count[candidate],
		Baseline:  known(e.Range.Low + width*s.mean(baseline)),
		Candidate: known(e.Range.Low + width*s.mean(candidate)),
	}
	switch {
	case !e.Range.known() && e.Range.Seen >= learning:
		c.Reason = fmt.Sprintf("all outcomes were %s so far, which does not tell how bad one can be: declare outcome_min "+
			"and outcome_max", number(e.Range.Least))
		return c, m
	case !e.Range.known() || s.Information == 0:
		c.Reason = fmt.Sprintf("no outcomes of both versions to compare by %q", g.Outcome)
		return c, m
	}
	alpha := e.Range.alpha(g.Alpha)
	low, estimate, high := s.Bounds(alpha)
	all := fmt.Sprintf("between %+.4g and %+.4g", low*width, high*width)
	low, high, rests := s.withoutEach(low, high, alpha)
	low, estimate, high = low*width, estimate*width, high*width
	if g.LowerIsBetter {
		m.between(-high, -estimate, -low)
	} else {
		m.between(low, estimate, high)
	}
	direction := "more"
	if g.LowerIsBetter {
		direction = "less"
	}
	c.Reason = fmt.Sprintf("the candidate's mean of %q differs by %+.4g from the baseline's, with confidence %s %s, "+
		"where %s is better and the margin is %s", g.Outcome, estimate, number(1-g.Alpha), all, direction, number(g.Margin))
	if rests != "" {
		c.Reason += "; " + rests
	}
	if !e.Range.Declared {
		c.Reason += fmt.Sprintf("; this assumes that outcomes lie between %s and %s, as they did so far",
			number(e.Range.Low), number(e.Range.High))
	}
	if min(s.Count[baseline], s.Count[candidate]) < g.leastEpisodes() {
		return c, m
	}
	above, below := s.withoutAny((*Sums).above, alpha), s.withoutAny((*Sums).below, alpha)
	if g.LowerIsBetter {
		above, below = below, above
	}
	switch {
	case above:
		c.Verdict = Promote
	case below:
		c.Verdict = Rollback
	}
	return c, m
}

// withoutAny reports whether something is sure with any one identity left out, by the rule of withoutEach.
func (s *Score) withoutAny(sure func(*Sums, float64) bool, alpha float64) bool {
	if !sure(&s.Sums, alpha) || !s.diverse() {
		return sure(&s.Sums, alpha)
	}
	for _, part := range s.By {
		if !sure(s.less(part), alpha) {
			return false
		}
	}
	return true
}

// diverse reports whether there are at least three identities, of which none has more than half.
func (s *Score) diverse() bool {
	for _, part := range s.By {
		if 2*(part.Count[baseline]+part.Count[candidate]) > s.Count[baseline]+s.Count[candidate] {
			return false
		}
	}
	return len(s.By) >= 3
}

// withoutEach widens bounds to those that hold with any one identity left out, if there are at least three identities
// of which none has more than half: what one of them makes up then moves no verdict. Else it says on whom they rest.
func (s *Score) withoutEach(low, high, alpha float64) (float64, float64, string) {
	all, most, largest := s.Count[baseline]+s.Count[candidate], int64(0), ""
	names := slices.Sorted(maps.Keys(s.By))
	for _, name := range names {
		if n := s.By[name].Count[baseline] + s.By[name].Count[candidate]; n > most {
			most, largest = n, name
		}
	}
	switch {
	case len(names) < 2:
		return low, high, ""
	case !s.diverse():
		return low, high, fmt.Sprintf("this rests on %q, who reported %d of %d", largest, most, all)
	}
	moved := ""
	for _, name := range names {
		l, _, h := s.less(s.By[name]).Bounds(alpha)
		if l > high || h < low {
			moved = fmt.Sprintf("without what %q reported it would be between %+.4g and %+.4g of the range", name, l, h)
		}
		low, high = min(low, l), max(high, h)
	}
	return low, high, moved
}

// codeList lists the codes of requests that were not answered.
func codeList(who string, r *Requests) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		if code != Answered {
			all = append(all, fmt.Sprintf("%s %d", code, r.Codes[code]))
		}
	}
	if all == nil {
		return ""
	}
	return fmt.Sprintf("; of %s in this stage, by code: %s", who, strings.Join(all, ", "))
}

func codeCounts(e *Evidence) []CodeCount {
	b, c := e.Requests[baseline].Codes, e.Requests[candidate].Codes
	names := slices.AppendSeq(slices.Collect(maps.Keys(b)), maps.Keys(c))
	slices.Sort(names)
	var all []CodeCount
	for _, code := range slices.Compact(names) {
		all = append(all, CodeCount{code, b[code], c[code]})
	}
	return all
}

func number(x float64) string { return fmt.Sprintf("%.4g", x) }

func signed(x float64) string { return fmt.Sprintf("%+.4g", x) }
