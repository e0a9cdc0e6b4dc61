package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/server/rollout"
)

// judge compares the answers now with the recorded ones, by the rules of a rollout. It concludes nothing about other
// requests: what is within a limit is promoted, however few the requests beyond the least number. hurried is "" or says
// that the requests came faster than they were recorded; a lack of capacity then only holds.
func (c *comparison) judge(g rollout.Gate, hurried string) rollout.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	g = g.WithDefaults()
	faults := c.lostBy(faultCodes)
	checks := []rollout.GateCheck{
		c.requests(g), c.part("errors", "failed with a fault of the model", faults, c.compared+faults, g.MaxErrorRate),
		c.latency(g, hurried),
	}
	if g.MinAgreement > 0 {
		checks = append(checks, c.agreement(g))
	}
	// What was answered then and is neither compared nor a fault of the model failed otherwise.
	others := c.answeredThen - c.compared - faults
	most := c.failedThen() + g.MaxFailureIncrease
	failures := c.part("failures", "failed otherwise"+codeList(c.lost), others, c.answeredThen, most)
	if wants := c.lostBy(wantCodes); hurried != "" && failures.Verdict == rollout.Rollback &&
		float64(others-wants) <= most*float64(c.answeredThen) {
		failures.Verdict = rollout.Hold
		failures.Reason += fmt.Sprintf("; %d of them for lack of capacity or time, which need not be the version's fault: %s",
			wants, hurried)
	}
	// A faster replay may be short of capacity by itself. What failed for other reasons has to stay within the limit.
	checks = append(checks, failures)
	report := rollout.Report{Verdict: rollout.Promote, Checks: checks}
	for _, check := range checks {
		report.Verdict = max(report.Verdict, check.Verdict)
	}
	return report
}

// Codes of faults of the model, and codes of a lack of capacity or time.
var (
	faultCodes = []string{"Internal", "Unknown"}
	wantCodes  = []string{"ResourceExhausted", "DeadlineExceeded", "Unavailable"}
)

// lostBy counts the requests that were answered when they were recorded and now end with one of these codes.
func (c *comparison) lostBy(codes []string) (n int64) {
	for _, code := range codes {
		n += c.lost[code]
	}
	return n
}

// requests holds a candidate that too few requests were compared for.
func (c *comparison) requests(g rollout.Gate) rollout.GateCheck {
	check := rollout.GateCheck{Name: "requests", Verdict: rollout.Promote}
	check.Reason = fmt.Sprintf("%d requests were answered then and now, %d needed", c.compared, g.MinRequests)
	if c.compared < g.MinRequests {
		check.Verdict = rollout.Hold
	}
	return check
}

// failedThen returns the part of the recorded requests that failed by no fault of the model. A replay may fail as
// often.
func (c *comparison) failedThen() float64 {
	var failed, all int64
	for code, n := range c.codes {
		all += n[0]
		if code != "OK" && !slices.Contains(faultCodes, code) {
			failed += n[0]
		}
	}
	return float64(failed) / float64(max(all, 1))
}

// part judges what part of the requests that were answered when recorded ended in some way now.
func (c *comparison) part(name, what string, hits, of int64, most float64) rollout.GateCheck {
	check := rollout.GateCheck{Name: name, Verdict: rollout.Promote}
	if of == 0 {
		check.Verdict, check.Reason = rollout.Hold, "no request was answered when it was recorded"
		return check
	}
	part := float64(hits) / float64(of)
	check.Reason = fmt.Sprintf("%d of %d requests that were answered then %s now, a part of %.4g against a limit of %.4g",
		hits, of, what, part, most)
	if part > most {
		check.Verdict = rollout.Rollback
	}
	return check
}

// agreement judges what part of the answers agreed within the tolerances.
func (c *comparison) agreement(g rollout.Gate) rollout.GateCheck {
	check := rollout.GateCheck{Name: "agreement", Verdict: rollout.Promote}
	if c.compared == 0 {
		check.Verdict, check.Reason = rollout.Hold, "no answers were compared"
		return check
	}
	part := float64(c.agreed) / float64(c.compared)
	check.Reason = fmt.Sprintf("%d of %d answers agreed, a part of %.4g against at least %.4g", c.agreed, c.compared, part,
		g.MinAgreement)
	if part < g.MinAgreement {
		check.Verdict = rollout.Rollback
	}
	return check
}

// latency compares the 95th percentiles of the compute time, which chance moves. A candidate is only held while the
// bounds of its percentile reach down to what is allowed.
func (c *comparison) latency(g rollout.Gate, hurried string) rollout.GateCheck {
	then, now := c.recorded.compute.ascending(), c.now.compute.ascending()
	check := rollout.GateCheck{Name: "latency", Verdict: rollout.Hold}
	if least := int(g.MinRequests); len(then) < max(least, 1) || len(now) < max(least, 1) {
		check.Reason = fmt.Sprintf("compute time measured of %d requests now and %d then, %d of each needed", len(now),
			len(then), least)
		return check
	}
	_, before, beforeHigh := p95(then)
	afterLow, after, _ := p95(now)
	ratio := float64(after) / float64(max(before, 1))
	check.Reason = fmt.Sprintf("the p95 of compute time is %v, and was %v: a ratio of %.4g against a limit of %.4g",
		after.Round(time.Microsecond), before.Round(time.Microsecond), ratio, g.MaxLatencyRatio)
	switch {
	case ratio <= g.MaxLatencyRatio:
		check.Verdict = rollout.Promote
	// The lower bound now against the upper bound then: the ratio of the true percentiles may well be allowed.
	case float64(afterLow) <= g.MaxLatencyRatio*float64(beforeHigh):
		check.Reason += ", which may still be chance"
	case hurried != "": // more requests at once are larger batches, and each takes longer
		check.Reason += "; that need not be the version's: " + hurried
	default:
		check.Verdict = rollout.Rollback
	}
	return check
}

// p95 returns the 95th percentile of an ascending sample, which must not be empty, and bounds three standard errors of
// its rank below and above. A sample with fewer than 210 values has no value for the upper bound, which is then the
// largest duration that there is.
func p95(sample []time.Duration) (low, mid, high time.Duration) {
	// The rank of a quantile of n values is about normal, with the variance n q (1-q).
	const q = 0.95
	n := float64(len(sample))
	spread := 3 * math.Sqrt(n*q*(1-q))
	at := func(rank float64) time.Duration { return sample[max(int(rank), 1)-1] }
	high = math.MaxInt64
	if top := math.Ceil(n*q+spread) + 1; top <= n {
		high = at(top)
	}
	return at(math.Floor(n*q - spread)), at(math.Ceil(n * q)), high
}

// codeList lists the codes of requests that were not answered.
func codeList(codes map[string]int64) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, fmt.Sprintf("%s %d", code, codes[code]))
	}
	if all == nil {
		return ""
	}
	return " (by code: " + strings.Join(all, ", ") + ")"
}
