package sharedsched

import "time"

// The pick decides between queues in the order of the package comment: urgency, but shares where not all can be in
// time, the least slack where no flow demands service, and background work last. A device that has foreground work
// does not idle, unless the work is held for a batch timeout or waits for its first measurements, callers are waited
// for (owed.go, gather.go), or a lane is kept for short batches (cap.go).

// next carries out EventNext.
func (c *Core) next(now Time, id LaneID, b *Batch, out *Answer) bool {
	c.advance(now, out)
	d := c.lanes[id].device
	for d.turn > now {
		q := c.beside(now, d)
		if q == nil {
			return false
		}
		d.free = now.Add(q.cost) // beside another it takes twice as long
		if c.serve(now, c.lanes[id], pick{queue: q, rule: PickBeside}, b, out) {
			return true
		}
	}
	d.free = d.freeAt(now) // limits are judged from then on
	// The cap follows at picks, not at arrivals: it bounds batches, and only picks start any.
	c.sweep(now, d)
	c.touchHeld(d)
	c.refreshTouched(now)
	// Each turn either starts a batch, finds nothing to start, or gives up at least one task, so that it ends.
	for {
		p := c.pick(now, d)
		if p.queue == nil {
			return false
		}
		if c.serve(now, c.lanes[id], p, b, out) {
			return true
		}
	}
}

// serve starts a batch of the queue that was picked, or gives up tasks of it.
func (c *Core) serve(now Time, l *lane, p pick, b *Batch, out *Answer) bool {
	q := p.queue
	c.setBack(now, q)
	waiting := q.ring.Len()
	if c.dropHopeless(now, q, out); q.ring.Len() < waiting {
		c.refreshTouched(now) // without them another queue may be more urgent
		return false
	}
	// Before the batch is formed, which changes both: they are the reason for the pick.
	p.slack, p.demanding = q.latest.Sub(now), l.device.demanding(q.class)
	p.passed = NoVersion
	if p.rival != nil {
		p.passed = p.rival.version.id
	}
	formed := c.form(now, q, b, out)
	if formed {
		c.start(now, l, p, b)
	}
	c.refreshTouched(now)
	return formed
}

// pick is the choice of a queue, and the reason.
type pick struct {
	queue     *queue
	rule      PickRule
	slack     time.Duration
	demanding int
	// rival has urgent work and was passed over, and passed is its version; nil and NoVersion: none was.
	rival  *queue
	passed VersionID
}

// pick chooses the queue to serve: on a lane that is kept for short batches the one of these that is due first, unless
// it is the turn of one anyway.
func (c *Core) pick(now Time, d *device) pick {
	c.promote(now, d)
	p := c.turn(now, d)
	if q := p.queue; q != nil && q.class == foreground && c.keepsLast(d) && !d.short.Has(q.id) {
		p = pick{rule: PickEarliest}
		if id, _, ok := d.short.Min(); ok {
			p.queue = c.queues[id]
			if q.stage == demanding {
				p.rival = q
			}
		}
	}
	return p
}

// turn returns whose turn it is. Background work is looked at only when no foreground task waits on the device, ready
// or not.
func (c *Core) turn(now Time, d *device) pick {
	fair := &d.fair[foreground]
	w, due, within := d.within.Min()
	f, beyond := fair.First()
	switch {
	case within:
		p := pick{queue: c.flows[w].first[foreground], rule: PickEarliest}
		if beyond && c.flows[f].first[foreground].due < Time(due) {
			p.rule, p.rival = PickWithin, c.flows[f].first[foreground]
		}
		return p
	case !beyond:
		// No flow demands service yet: rather than idle, serve the queue with the least slack.
		if id, _, ok := d.pending.Min(); ok {
			q := c.queues[id]
			if until := c.gather(now, q); until > now {
				d.turn, d.gathers = until, q
				return pick{}
			}
			return pick{queue: q, rule: PickIdle}
		}
		return pick{queue: c.pickBackground(now, d), rule: PickBackground}
	}
	q := c.flows[f].first[foreground]
	if owed, until := c.owed(now, q); until > now {
		d.waits, d.turn, d.until = max(now, d.freeAt(now)), until, until
		return pick{}
	} else if owed != nil {
		return pick{queue: owed, rule: PickBehind, rival: q}
	}
	if c.variant.NoConflictRule {
		return pick{queue: q, rule: PickEarliest}
	}
	// Queues that are due before another batch of that cost could end after this one would be late, and the further the
	// flow is ahead already, the longer it keeps them waiting: but for no longer than any default target.
	conflict := Never
	if ahead := conflictBatches*q.cost + time.Duration(fair.Lead(f)); ahead < maxTarget {
		conflict = now.Add(ahead)
	}
	if rival, ok := fair.Behind(int64(conflict)); ok && rival != f {
		return pick{queue: c.flows[rival].first[foreground], rule: PickBehind, rival: q}
	}
	return pick{queue: q, rule: PickEarliest}
}

// pickBackground chooses among background work, nil if there is none that may run now.
func (c *Core) pickBackground(now Time, d *device) *queue {
	for d.foreground == 0 {
		f, ok := d.fair[background].Behind(int64(Never))
		if !ok {
			break
		}
		q := c.flows[f].first[background]
		if c.refresh(now, q); q.stage != resting { // it may block for longer than it may have before
			return q
		}
	}
	return nil
}
