package sharedsched

import (
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// Callers who wait for an answer before they ask again get no more done than their answers are soon, and seldom say by
// when they want them. Beside a flood they would be answered just by the target that they are taken to have, and their
// flow get as little of the device as that comes to, whatever its weight. A flow is owed service if it is behind all
// that demand it beyond their shares. It then goes first although it is not urgent, where nobody named a time.
//
// Such callers ask again a moment after the answer, when the device is taken already: so for that moment it waits for
// the callers that it has just answered (anticipatory scheduling: Iyer and Druschel, Deceptive Idleness, SOSP 2001).

// callers are the ones that the latest batch of a flow answered, as far as they named no time, or of a queue.
type callers struct {
	away int // have not asked again
	// Of a queue: how many there were, and the rows that they asked for.
	tasks, rows int
	since       Time
	most        time.Duration // to wait for them; of a flow
	// From the answers until all had asked again, the last times, the latest first.
	pauses [gatherOf]time.Duration
}

// answered notes that a batch has ended, after the time that it took, with so many answers.
func (r *callers) answered(now Time, tasks int, took time.Duration) {
	if r.away > 0 {
		r.back(now)
	}
	r.away, r.since, r.most = tasks, now, took/awaitPart
}

// asked notes that one of them may be back.
func (r *callers) asked(now Time) {
	if r.away == 1 {
		r.back(now)
	}
	r.away = max(0, r.away-1)
}

// back notes that all of them are, or will not come.
func (r *callers) back(now Time) {
	copy(r.pauses[1:], r.pauses[:])
	r.pauses[0] = now.Sub(r.since)
}

// wait returns for how long they are waited for after their answers.
func (r *callers) wait() time.Duration {
	if wait := awaitPauses * max(r.pauses[0], r.pauses[1]); wait <= r.most {
		return wait
	}
	return 0
}

// untimed reports whether nobody named a time by which the task is to be answered, but a limit that is further away.
func (t *task) untimed() bool { return t.wanted == Never && t.due < t.limit }

// waited ends a wait of the device, and charges it to the flow for whose sake it was.
func (c *Core) waited(now Time, d *device) {
	if f := d.awaited; d.until > 0 && c.flows[f.id] == f {
		d.fair[foreground].Correct(fairq.Flow(f.id), max(0, min(d.until, now).Sub(d.waits)))
	}
	d.until = 0
}

// awaits returns until when the device is to wait for the callers of the latest such batch, or of one that is about to
// end.
func (c *Core) awaits(now Time, d *device) Time {
	f := d.awaited
	if f == nil || c.flows[f.id] != f || d.fair[foreground].Lead(fairq.Flow(f.id)) >= 0 || c.draining ||
		!d.shared() && d.inFlight < d.Lanes-1 { // one lane is enough
		return 0
	}
	r := &f.callers
	runs := func(l *lane) bool { return l.running && l.queue.flow == f }
	switch {
	case d.shared() && f.work == 0 && slices.ContainsFunc(d.lanes, runs):
		return d.freeAt(now).Add(r.wait())
	case r.away == 0:
		return 0
	}
	return r.since.Add(r.wait())
}

// owed returns the queue of a flow that is owed service before another, and until when the device is to wait for
// callers of one: no longer than they would wait for that other's batch, so that others are urgent early enough, too.
func (c *Core) owed(now Time, other *queue) (q *queue, until Time) {
	d := other.device
	if until = c.awaits(now, d); until > now && until <= now.Add(other.cost/d.parallel()) {
		return nil, until
	}
	fair := &d.fair[foreground]
	for _, nth := range [...]func(*iheap.Heap) (int32, int64, bool){(*iheap.Heap).Min, (*iheap.Heap).Second} {
		if id, _, ok := nth(&d.pending); ok {
			q = c.queues[id]
			f := fairq.Flow(q.flow.id)
			if !fair.Demands(f) && c.tasks[q.ring.At(0).Task].untimed() && fair.Lead(f) <= 0 {
				return q, 0
			}
		}
	}
	return nil, 0
}
