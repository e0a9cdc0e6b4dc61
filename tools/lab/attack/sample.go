package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// sample is what a server holds at a time.
type sample struct{ descriptors, goroutines, versions, server, workers float64 }

func (s *soak) probe(ctx context.Context) {
	began := time.Now()
	if _, err := s.server.Get(ctx, "/healthz"); err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes = append(s.probes, float64(time.Since(began))/float64(time.Millisecond))
}

// sample looks at what the server holds, and prints it.
func (s *soak) sample(ctx context.Context) {
	metrics, err := s.server.Metrics(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	u := useOf(s.server.PID())
	now := sample{
		goroutines: metrics.Sum("go_goroutines"), server: u.server, workers: u.workers,
	}
	now.versions, _ = metrics.Value("weft_models", "state", "ready") // 0 if there is none
	if p, err := procfs.NewProc(s.server.PID()); err == nil {
		n, _ := p.FileDescriptorsLen() // 0 of one that has ended
		now.descriptors = float64(n)
	}
	s.samples = append(s.samples, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%3d: %.0f descriptors, %.0f goroutines, %.0f + %.0f MiB, %.0f versions of %d, %d episodes, "+
		"%d steps, %d kills, %d lost\n", len(s.samples), now.descriptors, now.goroutines, now.server, now.workers,
		now.versions, s.versions, s.episodes, s.steps, s.kills, len(s.lost))
}
