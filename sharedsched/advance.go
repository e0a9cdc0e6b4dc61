package sharedsched

// advance carries out EventAdvance.
func (c *Core) advance(now Time, out *Answer) {
	// Limits first: whether a queue is held on depends on the tasks that are left in it.
	for {
		id, at, ok := c.limits.Min()
		if !ok || Time(at) > now {
			break
		}
		if !c.waits(Handle(id)) {
			c.limits.Pop() // it started, or ended, long ago
			continue
		}
		slot := Handle(id).Slot()
		t := &c.tasks[slot]
		c.log.drop(now, t.queue.version, t, DropExpired, 0)
		c.stop(now, slot, EndExpired, out)
	}
	for _, d := range c.devices {
		if d.cap.keeps && now.Sub(d.shares.mean.at) >= targetsFor { // nobody was picked since, and so none looked at
			c.setCap(d, d.cap.most, false)
		}
		if d.turn <= now {
			c.waited(now, d)
			d.turn, d.gathers = 0, nil
		}
	}
	// Each of these either becomes ready, or is watched until a later time: no queue comes twice.
	for {
		id, at, ok := c.holds.Min()
		if !ok || Time(at) > now {
			break
		}
		c.refresh(now, c.queues[id])
	}
	if len(c.bounded) > 0 {
		c.raiseBounds(now)
	}
	c.refreshTouched(now)
}

// A server stops in three steps: it takes its last requests and holds no batch (hurry), takes no more and runs the
// tasks it has (drain), and gives up the tasks that are left (close).

// hurry carries out EventHurry.
func (c *Core) hurry(now Time) {
	c.hurrying = true
	c.refreshAll(now)
}

// drain carries out EventDrain.
func (c *Core) drain(now Time) {
	c.draining = true
	c.refreshAll(now)
}

// close carries out EventClose.
func (c *Core) close(now Time, out *Answer) {
	c.draining = true
	c.stopAll(now, EndClosed, func(*queue) bool { return true }, out)
}
