package worker

import "time"

// SetOpenPatience limits first openings to another time.
func (p *Pool) SetOpenPatience(d time.Duration) { p.patience = d }

// HasSpare reports whether the spare process is there, so that it is only handed over.
func (p *Pool) HasSpare() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spare != nil && isDead(p.spare.ready) && p.spare.err == nil
}
