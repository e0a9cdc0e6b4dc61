package replay

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/server/rollout"
)

// coverage counts the requests of a recording that could not be compared, and that a verdict therefore does not rest
// on.
type coverage struct {
	sent          int64
	withoutInputs int64 // recorded, but not sent
	notRecorded   int64 // of any model
	failedThen    int64 // there is no answer to compare with
	unsent        int64 // of those, steps of episodes that were not sent
	before, after int64 // steps of episodes that were not sent: begunOff, afterLost
	mismatched    int64 // answered then and now, but an output is of another type or shape, or missing
	damaged       int   // files; it is not known how many requests are lost with them
}

// check holds a candidate if more than a part of the requests could not be compared.
func (c *coverage) check(most float64) rollout.GateCheck {
	// A request that was answered in another shape was sent and compared, and yet the comparison says nothing.
	left := c.withoutInputs + c.notRecorded + c.failedThen + c.mismatched + c.before + c.after
	all := c.sent + c.withoutInputs + c.notRecorded + c.unsent + c.before + c.after
	var why []string
	for _, w := range []struct {
		n    int64
		text string
	}{
		{c.failedThen, failedStep},
		{c.before, begunOff},
		{c.after, afterLost},
		{c.withoutInputs, "were recorded without their inputs"},
		{c.notRecorded, "were not recorded"},
		{c.mismatched, "have outputs of other names, types or shapes now"},
	} {
		if w.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", w.n, w.text))
		}
	}
	g := rollout.GateCheck{Name: "compared", Verdict: rollout.Promote}
	g.Reason = fmt.Sprintf("%d of %d requests could not be compared", left, all)
	if why != nil {
		g.Reason += " (" + strings.Join(why, ", ") + ")"
	}
	g.Reason += fmt.Sprintf(": a part of %.4g against a limit of %.4g", float64(left)/float64(max(all, 1)), most)
	// How many requests a damaged file has lost is not known, so that they count nowhere.
	if c.damaged > 0 {
		g.Reason += fmt.Sprintf(", without what is lost in %d damaged files", c.damaged)
	}
	if float64(left) > most*float64(all) {
		g.Verdict = rollout.Hold
	}
	return g
}
