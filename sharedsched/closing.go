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
	return c.stopAll(now, EndClosed, func(*queue) bool { return true }, acts)
}
