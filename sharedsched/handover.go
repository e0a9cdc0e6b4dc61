package sharedsched

import "time"

// Lanes that share a device's time (Device.Handover) are there for two reasons: the device never waits for a batch, and
// a short batch gets past a long one.
//
// Two long ones side by side gain nothing: the first is late for nothing, both together hold the device for twice the
// device cap, and the second was formed a batch too early. So the next batch is started when those in flight are about
// to end: early enough for the steps before computing, such as copies. A short one that would be late at its turn is
// started beside a long one: a device that divides its time between two delays each by no more than the other takes.

// shared reports whether batches in flight on the device slow each other.
func (d *device) shared() bool { return d.Handover > 0 && d.Lanes > 1 }

// parallel returns how many batches the device does in the time of one: a divisor for the time that work takes on it.
func (d *device) parallel() time.Duration {
	if d.shared() {
		return 1
	}
	return time.Duration(d.Lanes)
}

// freeAt returns when the batches in flight on a device whose lanes share its time are expected to have ended; now if
// there are none, if their costs are unknown, or if lanes do not share it.
func (d *device) freeAt(now Time) Time {
	if !d.shared() || d.inFlight == 0 {
		return now
	}
	passed := now.Sub(d.since) / time.Duration(d.inFlight)
	left := time.Duration(0)
	for _, l := range d.lanes {
		if !l.running {
			continue
		}
		if !l.est.Known() {
			return now // unknown, and a guess must refuse nothing
		}
		left += max(0, l.est.Cost-l.share-passed)
	}
	return now.Add(left)
}

// setTurn follows a change of the set in flight: it sets when the next batch may be started while that set runs: when
// it is unlikely to run for longer than Handover yet. Batches of unknown cost hold nothing back.
func (d *device) setTurn(now Time) {
	d.turn = 0
	if !d.shared() || d.inFlight == 0 {
		return
	}
	end, unsure, due := d.freeAt(now), time.Duration(0), Never
	for _, l := range d.lanes {
		if l.running {
			if !l.est.Known() {
				return
			}
			unsure += l.est.High - l.est.Cost
			due = min(due, l.due)
		}
	}
	d.end = end.Add(unsure)
	d.turn = d.end - Time(d.Handover)
	if end <= due && due < end.Add(max(d.Handover-unsure, 0))+delivery {
		d.turn = due // it would be late for the sake of the next
	}
}

// beside returns the queue whose next batch is to start beside what runs, though that is not about to end; nil if there
// is none. It is the one that must start first of those that are within their shares or not urgent yet, if
//
//   - it may be late when what runs has ended;
//   - it gains at least as much as the other loses: its cost, of the time that is left less twice that;
//   - what runs is not late for it;
//   - what runs is of another version, for engines run the batches of one version one at a time.
func (c *Core) beside(now Time, d *device) (q *queue) {
	if d.inFlight == d.Lanes || c.variant.NoBeside {
		return nil
	}
	if f, _, ok := d.within.Min(); ok {
		q = c.flows[f].first[foreground]
	}
	if id, latest, ok := d.pending.Min(); ok && (q == nil || Time(latest) < q.latest) {
		q = c.queues[id]
	}
	if q == nil || q.latest >= d.end || now.Add(2*q.cost) > d.end || !q.full.Known() {
		return nil
	}
	for _, l := range d.lanes {
		if l.running && (l.queue.version == q.version || d.end <= l.due && l.due < d.end.Add(q.cost)) {
			return nil
		}
	}
	return q
}
