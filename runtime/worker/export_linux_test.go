package worker

import (
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// SetOpenPatience limits first openings to another time.
func (p *Pool) SetOpenPatience(d time.Duration) { p.patience = d }

// Lanes returns how many lanes all processes have. Each holds a file.
func (p *Pool) Lanes() (lanes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.processes {
		one.mu.Lock()
		lanes += len(one.lanes)
		one.mu.Unlock()
	}
	return lanes
}

// SetTriedIdle sets how long processes wait for the next model to try.
func (p *Pool) SetTriedIdle(d time.Duration) { p.tried.idle = d }

// Hasten has processes end within a second that do not read, or do not close a session.
func (c Config) Hasten() Config {
	c.deaf, c.closing = time.Second, time.Second
	return c
}

// HasSpare reports whether the spare process is there, so that it is only handed over.
func (p *Pool) HasSpare() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spare != nil && isDead(p.spare.ready) && p.spare.err == nil
}

// Running returns the versions whose runs are under way in the process of a session.
func Running(s engine.Session) []string {
	p := s.(*Session).life.Load().process
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}
