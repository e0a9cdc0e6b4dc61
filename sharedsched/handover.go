package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/iheap"
)

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
	left := time.Duration(0)
	for _, l := range d.lanes {
		if !l.running {
			continue
		}
		if !l.est.Known() {
			return now // unknown, and a guess must refuse nothing
		}
		left += l.left(now)
	}
	return now.Add(left)
}

// left returns for how much longer the batch in flight is expected to need the device.
func (l *lane) left(now Time) time.Duration {
	d := l.device
	return max(0, l.est.Cost-l.share-now.Sub(d.since)/time.Duration(d.inFlight))
}

// setTurn follows a change of the set in flight: it sets when the next batch may be started while that set runs: when
// it is unlikely to run for longer than Handover yet, or than a part of a batch of it. Batches of unknown cost hold
// nothing back.
func (d *device) setTurn(now Time) {
	d.turn, d.gathers = 0, nil
	if !d.shared() || d.inFlight == 0 {
		return
	}
	end, surely, due := d.freeAt(now), now, Never
	ahead := d.Handover
	for _, l := range d.lanes {
		if l.running {
			if !l.est.Known() {
				return
			}
			// By how much longer it may run than expected does not become less while it runs: stalls come late.
			surely = surely.Add(l.left(now) + l.est.High - l.est.Cost)
			due = min(due, l.due)
			ahead = min(ahead, l.est.Cost/handoverPart)
		}
	}
	d.end = surely
	d.turn = surely - Time(ahead)
	if end <= due && due < end+max(end-d.turn, 0)+delivery {
		d.turn = max(d.turn, due) // it would be late for the sake of the next
	}
}

// beside returns the queue whose next batch is to start beside what runs, though that is not about to end; nil if there
// is none. It is the one that must start first among four: the two that are due first within their shares, and the two
// that become urgent next.
func (c *Core) beside(now Time, d *device) (best *queue) {
	if d.inFlight == d.Lanes {
		return nil
	}
	look := func(q *queue) {
		if (best == nil || q.latest < best.latest) && c.mayBeside(now, q) {
			best = q
		}
	}
	for _, nth := range [...]func(*iheap.Heap) (int32, int64, bool){(*iheap.Heap).Min, (*iheap.Heap).Second} {
		if f, _, ok := nth(&d.within); ok {
			look(c.flows[f].first[foreground])
		}
		if id, _, ok := nth(&d.pending); ok {
			look(c.queues[id])
		}
	}
	return best
}

// mayBeside reports whether the next batch of the queue is to start beside what runs:
//
//   - it may be late when what runs has ended;
//   - it gains at least as much as the other loses, which is its cost: that fits twice into the time that is left;
//   - what runs is not late for it;
//   - what runs is of another version, for engines run the batches of one version one at a time;
//   - its flow is not beyond its share: a flood waits for its turn.
func (c *Core) mayBeside(now Time, q *queue) bool {
	d := q.device
	if q.latest >= d.end || now.Add(2*q.cost) > d.end || q.flow.beyond || !q.full.Known() || c.variant.NoBeside {
		return false
	}
	end := d.freeAt(now)
	for _, l := range d.lanes {
		if l.running && (l.queue.version == q.version || end <= l.due && l.due < end.Add(q.cost)+delivery) {
			return false
		}
	}
	return true
}

// besideIn returns for how much longer an answer takes than a batch of the queue does alone, if that may start beside
// the longest batch in flight as soon as the others have ended. It reports false if it may not.
func (c *Core) besideIn(now Time, q *queue, takes time.Duration) (longer time.Duration, ok bool) {
	d := q.device
	if !d.shared() || q.flow.beyond || c.variant.NoBeside {
		return 0, false
	}
	var longest *lane
	all, most := time.Duration(0), time.Duration(-1)
	for _, l := range d.lanes {
		if !l.running {
			continue
		}
		left := l.left(now)
		if all += left; left > most {
			longest, most = l, left
		}
	}
	if longest == nil || longest.queue.version == q.version || all-most+takes > most {
		return 0, false
	}
	return 2*(all-most) + takes, true
}
