package sharedsched

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
