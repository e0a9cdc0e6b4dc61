package sim

// leastSlack serves the line whose batch has to start soonest: least laxity first (Mok, 1983) for batches. A batch is
// the largest that keeps the deadline of its head. Only heads that cannot be on time even alone are given up, and
// nothing is fair.
type leastSlack struct{ lines }

// Next implements Policy.
func (p *leastSlack) Next(now Time, _ int) *Batch {
	return p.pick(now, (*lines).fromHead, func(a, b window) bool { return a.last < b.last })
}
