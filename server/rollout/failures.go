package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkFailures compares how many requests were not answered, whatever the code, except for faults of the model, which
// have a limit of their own. A cause that makes requests of both versions fail alike is not held against the candidate.
func checkFailures(g Gate, e Evidence) (GateCheck, Metric) {
	b, n := e.Baseline, e.Candidate
	m := Metric{
		Name: "failures", Margin: g.MaxFailureIncrease, BaselineCount: b.Asked, CandidateCount: n.Asked,
		Baseline: rate(b.Failed, b.Asked), Candidate: rate(n.Failed, n.Asked),
	}
	m.within([]Stratum{{Baseline: share(b.Failed, b.Asked), Candidate: share(n.Failed, n.Asked)}}, g.Alpha)
	c := GateCheck{Name: "failures", Verdict: Promote}
	if n.Asked == 0 {
		c.Verdict, c.Reason = Hold, fmt.Sprintf("no request of the candidate in this stage, %d needed", g.MinRequests)
		return c, m
	}
	c.Reason = fmt.Sprintf("%d of %d requests of the candidate failed without a fault of the model%s, %d of %d of the "+
		"baseline%s: a part of %s against %s, and %s more is allowed",
		n.Failed, n.Asked, codeList(n.Codes), b.Failed, b.Asked, codeList(b.Codes), part(n.Failed, n.Asked),
		part(b.Failed, b.Asked), number(g.MaxFailureIncrease))
	more := exceeds(b.Failed, b.Asked, n.Failed, n.Asked, g.MaxFailureIncrease, g.Alpha)
	switch {
	case n.Asked < g.MinRequests:
		c.Verdict = Hold
		c.Reason += fmt.Sprintf("; %d requests are needed", g.MinRequests)
	case n.Failed > 0 && b.Asked == 0:
		c.Verdict = Hold
		c.Reason += "; there is no request of the baseline to compare with"
	case more == surely && e.Apart != "" &&
		exceeds(b.Failed-b.Overload, b.Asked, n.Failed-n.Overload, n.Asked, g.MaxFailureIncrease, g.Alpha) != surely:
		c.Verdict = Hold
		c.Reason += fmt.Sprintf("; %d of them are overload, which need not be the candidate's: %s", n.Overload, e.Apart)
	case more == surely:
		c.Verdict = Rollback
	case more == perhaps:
		c.Verdict = Hold
		c.Reason += "; the excess may still be chance"
	}
	return c, m
}

// excess says whether a part exceeds another by more than is allowed.
type excess int

const (
	no      excess = iota
	perhaps        // it does, which may be chance
	surely
)

// exceeds reports whether the candidate's part of hits exceeds the baseline's by more than margin. However often it is
// asked while the tries grow, it is wrong in saying surely with about alpha: see difference. Without any try of the
// baseline it says no.
func exceeds(baselineHits, baselineTries, hits, tries int64, margin, alpha float64) excess {
	if hits == 0 || baselineTries == 0 {
		return no
	}
	return exceed([]Stratum{{Baseline: share(baselineHits, baselineTries), Candidate: share(hits, tries)}}, hits,
		margin, alpha)
}

// exceed is exceeds for hits that were counted in strata, as ones among zeros.
func exceed(strata []Stratum, hits int64, margin, alpha float64) excess {
	estimate, radius := difference(strata, alpha)
	switch {
	case hits >= fewest && estimate-radius > margin:
		return surely
	case estimate > margin:
		return perhaps
	}
	return no
}

// share is the moments of hits ones among tries numbers that are zero otherwise.
func share(hits, tries int64) Moments {
	if tries == 0 {
		return Moments{}
	}
	p := float64(hits) / float64(tries)
	return Moments{Count: tries, Mean: p, Squares: float64(tries) * p * (1 - p), Max: 1}
}

// codeList lists the codes of requests that were not answered.
func codeList(codes map[string]int64) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if code != Answered {
			all = append(all, fmt.Sprintf("%s %d", code, codes[code]))
		}
	}
	if all == nil {
		return ""
	}
	return " (by code: " + strings.Join(all, ", ") + ")"
}

func codeCounts(e Evidence) []CodeCount {
	names := slices.AppendSeq(slices.Collect(maps.Keys(e.Baseline.Codes)), maps.Keys(e.Candidate.Codes))
	slices.Sort(names)
	var all []CodeCount
	for _, code := range slices.Compact(names) {
		all = append(all, CodeCount{code, e.Baseline.Codes[code], e.Candidate.Codes[code]})
	}
	return all
}
