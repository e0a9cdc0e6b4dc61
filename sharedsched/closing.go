package sharedsched

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
func (c *Core) close(now Time, acts []Action) []Action {
	c.draining = true
	for slot := range c.tasks {
		if c.tasks[slot].state == taskQueued {
			acts = c.stop(now, int32(slot), EndClosed, acts)
		}
	}
	c.refreshTouched(now)
	return acts
}
