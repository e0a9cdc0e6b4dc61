package sharedsched

// Hurry ends all holding of batches for their timeouts, now and from now on, as befits a server that is about to stop: tasks are
// admitted as before.
func (c *Core) Hurry(now Time) {
	c.hurry = true
	c.refreshAll(now)
}

// Drain refuses further tasks of every version and runs what waits without waiting for batches to fill.
func (c *Core) Drain(now Time) {
	c.draining = true
	c.refreshAll(now)
}

// Close ends every task that has rows waiting.
func (c *Core) Close(now Time, acts []Action) []Action {
	c.draining = true
	for slot := range c.tasks {
		if c.tasks[slot].state == taskQueued {
			acts = c.stop(now, int32(slot), EndClosed, acts)
		}
	}
	c.refreshTouched(now)
	return acts
}
