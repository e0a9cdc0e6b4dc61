package sim

// ordered serves the line whose window comes first. It has the policies that keep nothing else in mind:
//
//   - EDF serves the line whose head has the earliest deadline (Liu and Layland, JACM 1973), in the largest batch that
//     keeps this deadline. Heads that cannot be on time even alone are given up. Overload makes it serve every request
//     at its last moment, in small batches.
//   - With drop, a window slides over each queue as in Nexus and Symphony, aiming at the largest batch with 2 l(b) <=
//     SLO: heads that would force a small batch are given up.
//   - Least slack serves the line whose batch has to start soonest: least laxity first (Mok, 1983) for batches. A batch
//     is the largest that keeps the deadline of its head. Nothing is fair.
type ordered struct {
	lines
	form   func(*lines, Time, *line) window
	before func(a, b window) bool
}

func newEDF(e *Env) Policy     { return &ordered{newLines(e), (*lines).fromHead, dueFirst} }
func newEDFDrop(e *Env) Policy { return &ordered{newLines(e), (*lines).saturatedWindow, dueFirst} }
func newSlack(e *Env) Policy   { return &ordered{newLines(e), (*lines).fromHead, startFirst} }

// Next implements Policy.
func (p *ordered) Next(now Time, _ int) *Batch {
	return p.pick(now, func(q *line) window { return p.form(&p.lines, now, q) }, p.before)
}

func dueFirst(a, b window) bool { return a.due < b.due }

func startFirst(a, b window) bool { return a.last < b.last }
