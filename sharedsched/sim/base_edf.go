package sim

// edf serves the line whose head has the earliest deadline (Liu and Layland, JACM 1973), in the largest batch that
// keeps this deadline. Heads that cannot be on time even alone are given up.
//
// With drop, a window slides over each queue as in Nexus and Symphony, aiming at the largest batch with 2 l(b) <= SLO:
// heads that would force a small batch are given up. Without, overload makes it serve every request at its last moment,
// in small batches.
type edf struct {
	lines
	drop bool
}

// Next implements Policy.
func (p *edf) Next(now Time, _ int) *Batch {
	form := (*lines).fromHead
	if p.drop {
		form = (*lines).saturatedWindow
	}
	return p.pick(now, form, func(a, b window) bool { return a.due < b.due })
}
