package sharedsched

import "slices"

// Changes are noted, and looked at once at the end of the event. A change of a task touches its queue; a change of
// known costs, memory or settings touches all queues that it concerns, and marks the figures that they keep of it as
// old.

// touch makes the end of the event refresh the queue. Where many tasks leave at once, looking at their queues once is
// enough.
func (c *Core) touch(q *queue) {
	if !q.touched {
		q.touched = true
		c.touched = append(c.touched, q)
	}
}

// refreshTouched ends an event.
func (c *Core) refreshTouched(now Time) {
	for next := 0; next < len(c.touched); { // to refresh one may touch another
		q := c.touched[next]
		next++
		q.touched = false
		if other := c.queues[q.id]; other != nil && other != q {
			continue // it was idle, and dropped, and another has its id
		}
		c.rescan(q)
		c.refresh(now, q)
		if q.ring.Len() == 0 && q.running == 0 && len(q.key) > maxIdleKey && c.queues[q.id] == q {
			c.dropQueue(q)
		}
	}
	c.touched = c.touched[:0]
}

// touchShape follows a change of a shape's known costs.
func (c *Core) touchShape(s *shape) {
	for _, q := range s.queues {
		q.asOf = 0
		c.touch(q)
	}
}

// touchVersion follows a change of the version's settings or costs.
func (c *Core) touchVersion(v *version) {
	// In the order of their ids, for the stage of one queue may depend on the cost of another's batch.
	first := len(c.touched)
	for _, q := range v.queues {
		q.asOf = 0
		c.touch(q)
	}
	slices.SortFunc(c.touched[first:], func(a, b *queue) int { return int(a.id - b.id) })
}

// touchDevice makes the end of the event refresh all queues of a device.
func (c *Core) touchDevice(d *device) {
	for _, v := range c.versions {
		if v != nil && v.flow.device == d {
			c.touchVersion(v)
		}
	}
}

// touchHeld makes the end of the event refresh queues that may be held for a batch timeout, after batches' costs or the
// bounds on them have changed.
func (c *Core) touchHeld(d *device) {
	if now := d.cap.revision + d.state.Revision(); now != d.looked {
		d.looked = now
		for _, v := range c.versions {
			if v != nil && v.settings.BatchTimeout > 0 && v.flow.device == d {
				c.touchVersion(v)
			}
		}
	}
}

// refreshAll ends an event that concerns every queue there is.
func (c *Core) refreshAll(now Time) {
	for _, v := range c.versions {
		if v != nil {
			c.touchVersion(v)
		}
	}
	c.refreshTouched(now)
}
