package sharedsched

// Expel refuses further tasks of a version, as RemoveVersion does, but ends those that have rows waiting instead of running them:
// for a version whose device cannot run anything any more.
func (c *Core) Expel(now Time, id VersionID, acts []Action) []Action {
	v := c.version(id)
	if v == nil {
		return acts
	}
	v.closing = true
	for slot := range c.tasks {
		if t := &c.tasks[slot]; t.state == taskQueued && t.queue.version == v {
			acts = c.stop(now, int32(slot), EndRemoved, acts)
		}
	}
	c.refreshTouched(now)
	return c.retire(v, acts)
}

// Expel ends the tasks of a version that have rows waiting, with ErrRemoved, and refuses further ones. It returns at once; batches in
// flight go on. RemoveVersion, which waits for these, must follow.
func (s *Scheduler) Expel(v VersionID) {
	s.mu.Lock()
	var sc scratch
	now := s.nowLocked(s.now())
	sc.acts = s.core.Expel(now, v, sc.acts)
	s.trace.event("expel", now, v, sc.acts)
	s.afterEventLocked(now, &sc)
	s.mu.Unlock()
	sc.answer()
}
