package main

import (
	"context"
	"time"
)

// watch looks at a server's memory until ctx ends, and sends the most that it took. It calls over once when the server
// takes more MiB than it should.
func watch(ctx context.Context, pid int, most float64, over func()) <-chan use {
	result := make(chan use, 1) // nobody may ask
	go func() {
		var peak use
		looks := time.NewTicker(100 * time.Millisecond)
		defer looks.Stop()
		for stopped := false; ctx.Err() == nil; {
			now := useOf(pid)
			peak.server, peak.workers = max(peak.server, now.server), max(peak.workers, now.workers)
			if now.memory() > most && !stopped {
				stopped = true
				over()
			}
			select {
			case <-looks.C:
			case <-ctx.Done():
			}
		}
		peak.server = max(peak.server, peakOf(pid))
		result <- peak
	}()
	return result
}
