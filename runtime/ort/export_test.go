package ort

// Running reports whether a run holds the session.
func (s *Session) Running() bool {
	if s.mu.TryLock() {
		s.mu.Unlock()
		return false
	}
	return true
}

// Unpredictable reports whether the session has given up on the model's declared shapes.
func (s *Session) Unpredictable() bool { return s.unpredictable.Load() }
