package ort_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Close comes at any moment of many short runs. Each ends by itself, is terminated, or finds the session closed.
func TestCloseAmongRuns(t *testing.T) {
	for range 20 {
		s := openGraph(t, onnxgraph.MLP("policy", []int{8, 16, 2}, 1, "Tanh", ""))
		var running, stopped sync.WaitGroup
		for range 4 {
			b := batchOf(t, s, sample(tensor.Float32, tensor.Shape{3, 8}))
			running.Add(1)
			stopped.Go(func() {
				if err := s.Run(t.Context(), b); err != nil {
					t.Error(err)
				}
				running.Done()
				for {
					err := s.Run(t.Context(), b)
					if errors.Is(err, engine.ErrClosed) {
						return
					}
					if err != nil && engine.KindOf(err) != engine.Terminated {
						t.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		stopped.Wait()
		if n := s.Stoppable(); n != 0 {
			t.Errorf("%d runs that have ended may still be stopped", n)
		}
	}
}
