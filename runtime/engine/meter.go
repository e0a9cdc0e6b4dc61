package engine

import "sync"

// Meter reads the Stats of a session from any goroutine, also once the session is closed: then the ones that were read
// last. Each method may be called without regard to locks, because a session's Stats is called with none of a Meter
// held. Safe for concurrent use.
type Meter struct {
	session Session

	mu      sync.Mutex
	last    Stats          // guarded by mu
	closed  bool           // guarded by mu: last is final
	reading sync.WaitGroup // calls of Stats; Add is guarded by mu, and not called once closed
}

// NewMeter returns the meter of a session that was just opened, and reads it. From now on the session is closed by
// the meter's Close.
func NewMeter(s Session) *Meter { return &Meter{session: s, last: s.Stats()} }

// Read returns the session's Stats, or the final ones.
func (m *Meter) Read() Stats {
	m.mu.Lock()
	if m.closed {
		defer m.mu.Unlock()
		return m.last
	}
	m.reading.Add(1)
	m.mu.Unlock()
	defer m.reading.Done()
	return m.session.Stats()
}

// Last returns the Stats that were read when the session was opened, or, once it is closed, the final Stats. It does
// not call the session.
func (m *Meter) Last() (stats Stats, final bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.closed
}

// Close closes the session after a last reading, once all others have ended. It is called once, after the last run.
func (m *Meter) Close() error {
	last := m.session.Stats()
	m.mu.Lock()
	m.last, m.closed = last, true
	m.mu.Unlock()
	m.reading.Wait()
	return m.session.Close()
}
