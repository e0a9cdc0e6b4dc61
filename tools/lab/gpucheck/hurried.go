package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// hurried measures how late the answers of a policy are that is asked at a steady pace and wants them soon, while
// another model fills the device with batches that take many times as long as it would wait.
func (s *suite) hurried(ctx context.Context) error {
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository := s.repository("hurried")
	const longer = 10 // times as long as a batch of the heavy model elsewhere
	if _, err := s.placeHeavy(repository, "heavy", h, 1, h.layers*longer); err != nil {
		return err
	}
	if _, err := s.place(repository, "steady", smallPolicy("steady"), "", "target_latency: 5ms\n"); err != nil {
		return err
	}
	return s.serve(ctx, "hurried", repository, func(v *server) error {
		load := h.load("heavy", 3)
		stop := start(ctx, v.conns, load)
		defer stop()
		if err := wait(ctx, s.Span/4); err != nil { // until its costs are known
			return err
		}
		calls, began := load.calls.Load(), time.Now()
		took, err := s.paced(ctx, v, func() error { return wait(ctx, s.Span) })
		if err != nil {
			return err
		}
		rows := float64(load.calls.Load()-calls) * float64(h.requestRows())
		batch := time.Duration(float64(time.Since(began)) * float64(h.rows) / rows)
		slices.Sort(took)
		s.report.timed(fmt.Sprintf("hurried: a policy beside batches of %v", batch.Round(time.Millisecond)),
			"p99 < a quarter of a batch", late(took), took[len(took)*99/100] < batch/4)
		return load.err()
	})
}
