package worker

import "time"

// SetOpenPatience limits first openings to another time.
func (p *Pool) SetOpenPatience(d time.Duration) { p.patience = d }
