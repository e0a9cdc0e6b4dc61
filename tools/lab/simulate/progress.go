package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weftserve/weft/internal/progress"
)

// shown writes each figure when it is found, and how far it is.
type shown struct {
	line  *progress.Line
	start time.Time

	mu       sync.Mutex
	done, of int // guarded by mu; figures
}

func show(to io.Writer) *shown {
	s := &shown{start: time.Now()}
	s.line = progress.Start(to, "sim", s.say)
	return s
}

// found is a sim.Progress.
func (s *shown) found(done, of int, figure string) {
	s.mu.Lock()
	s.done, s.of = done, of
	s.mu.Unlock()
	fmt.Fprintln(s.line, figure)
}

// say returns how far it is. Figures take unlike long, so that the time left is a rough one.
func (s *shown) say() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.start)
	if s.done == 0 {
		return fmt.Sprintf("no figure yet after %v", took.Round(time.Second))
	}
	return fmt.Sprintf("%d of %d figures", s.done, s.of) + progress.Left(took, float64(s.done)/float64(s.of))
}
