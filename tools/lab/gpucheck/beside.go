package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/tools/lab/harness"
)

// job is a model file and the rows of the batches that it is run on.
type job struct {
	path string
	rows int
}

// beside measures, in this process and without a scheduler, what batches lose that run at once: those of a small policy
// beside a heavy model's, and two heavy ones. It says what the device makes of it where nobody decides who goes first.
func (s *suite) beside(ctx context.Context) error {
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	small := job{filepath.Join(s.repository("beside"), "small.onnx"), 8}
	if err := harness.Write(small.path, smallPolicy("small")); err != nil {
		return err
	}
	const longer = 32 // kernels that take about so much longer, and so many fewer of them
	for _, heavy := range []struct {
		name         string
		rows, layers int
	}{{"short kernels", h.rows, h.layers}, {"long kernels", h.rows * longer, max(h.layers/longer, 2)}} {
		large := job{filepath.Join(s.repository("beside"), fmt.Sprintf("heavy_%d.onnx", heavy.rows)), heavy.rows}
		if err := harness.Write(large.path, deep(h.width, heavy.layers)); err != nil {
			return err
		}
		for _, jobs := range [][]job{{small}, {large}, {small, large}, {large, large}} {
			took, err := s.engine.together(ctx, s.Span/5, jobs...)
			if err != nil {
				return fmt.Errorf("%s: %w", heavy.name, err)
			}
			for i, j := range jobs {
				name := map[job]string{small: "small", large: "heavy"}
				about := "alone"
				if len(jobs) == 2 {
					about = "beside " + name[jobs[1-i]]
				}
				s.report.tell(fmt.Sprintf("beside, %s: %s %s", heavy.name, name[j], about), late(took[i]))
			}
		}
	}
	return nil
}

// together runs models at once, each again and again for that long, and returns how long each batch of each took.
func (e engine) together(ctx context.Context, span time.Duration, jobs ...job) ([][]time.Duration, error) {
	took, errs := make([][]time.Duration, len(jobs)), make([]error, len(jobs))
	var opened, ended sync.WaitGroup
	opened.Add(len(jobs))
	for i, j := range jobs {
		ended.Go(func() {
			session, err := ort.Open(j.path, e.options)
			if err != nil {
				opened.Done()
				errs[i] = err
				return
			}
			b := randomBatch(session.Signature(), j.rows)
			defer b.Free()
			for range 3 { // the first runs pay for one-time setup
				errs[i] = errors.Join(errs[i], session.Run(ctx, b))
			}
			opened.Done()
			opened.Wait()
			for end := time.Now().Add(span); errs[i] == nil && time.Now().Before(end); {
				began := time.Now()
				errs[i] = session.Run(ctx, b)
				took[i] = append(took[i], time.Since(began))
			}
			errs[i] = errors.Join(errs[i], session.Close())
		})
	}
	ended.Wait()
	return took, errors.Join(errs...)
}
