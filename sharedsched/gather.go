package sharedsched

import (
	"slices"
	"time"
)

// Callers who ask again as soon as they are answered come in two crowds: while a batch with the one runs, the other
// waits, and each batch has half of the rows that it could have. Where the rows of a batch hardly change its cost, that
// is half of what the device can do. So before the device starts the batch of the one, it waits for the other to be
// back (anticipatory scheduling, see owed.go), if that takes at most half of the time that one batch for both saves.
// It does so only while nothing else waits for it.
//
// How soon they are back is known from the times before. Arrivals of an open loop are no such callers: they are not
// as many as were answered, but now more and now less.

// came notes that a foreground task has come: of a caller who is back, or of another where all are. Then they do not
// count as back.
func (r *callers) came(now Time) {
	if r.away == 0 {
		r.pauses[0] = time.Duration(Never / awaitPauses)
	}
	r.asked(now)
}

// gather returns until when the device is to wait for the callers of the latest batch of a queue that is next, 0: it is
// not to. It waits for no longer than the batch would take that it puts off. Where lanes have processors of their own
// there is nothing to save while some are idle.
func (c *Core) gather(now Time, q *queue) Time {
	d, r, s := q.device, &q.callers, &q.version.settings
	head := &c.tasks[q.ring.At(0).Task]
	if c.variant.NoAwait || d.pending.Len() > 1 || !s.Batched || s.BatchTimeout > 0 || head.alone || head.next > 0 ||
		c.hurrying || d.parallel() > 1 {
		return 0
	}
	since, coming := r.since, r.away*r.rows/max(r.tasks, 1)
	if d.inFlight > 0 { // on lanes that share the device
		since, coming = d.freeAt(now), 0
		for _, l := range d.lanes {
			switch {
			case !l.running:
			case l.queue != q || l.class == background || l.mixed || l.batch.Reason == FlushUnbatched:
				return 0
			default:
				coming += l.batch.Rows // whose callers are about to be answered
			}
		}
	}
	if coming == 0 || q.waiting+coming > q.planned || since == now && d.inFlight > 0 {
		return 0
	}
	cost := func(rows int) time.Duration { return q.estimate(s.padded(rows)).Cost }
	saves := cost(q.waiting) + cost(coming) - cost(q.waiting+coming)
	pauses := r.pauses
	slices.Sort(pauses[:])
	wait := awaitPauses * pauses[gatherOf-2]
	if wait == 0 || wait > min(saves, q.cost) {
		return 0
	}
	return min(since.Add(wait), q.latest)
}

// gathered follows a refresh of a queue: it ends a wait for callers where all are back, the batch is full or must
// start, nobody waits any more, or another queue has foreground work.
func (c *Core) gathered(q *queue) {
	d := q.device
	switch {
	case d.gathers == nil:
	case d.gathers != q && (q.stage == resting || q.class == background):
	case d.gathers == q && q.stage == pending && !c.hurrying && q.latest >= d.turn &&
		(d.inFlight > 0 || q.callers.away > 0):
	default:
		d.turn, d.gathers = 0, nil // the device was free already when the wait began
	}
}
