package ort_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// slowModel multiplies large matrices for several seconds.
func slowModel() []byte {
	const products = 300
	g := onnxgraph.New("slow").Input("x", onnxgraph.Float, 1024, 1024).Output("y", onnxgraph.Float, 1024, 1024)
	last := "x"
	for i := range products {
		next := fmt.Sprintf("product_%d", i)
		if i == products-1 {
			next = "y"
		}
		g.Node("MatMul", []string{last, "x"}, []string{next})
		last = next
	}
	return g.Marshal()
}

func TestCloseStopsRun(t *testing.T) {
	s := openGraph(t, slowModel())
	b := batchOf(t, s, tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{1024, 1024}, Data: make([]byte, 4<<20)})
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), b) }()
	weftest.Until(t, "a run", s.Running)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The run had begun; at the earliest, it had yet to look whether the session is open.
	err := <-done
	if engine.KindOf(err) != engine.Terminated {
		t.Errorf("run during Close: got %v, want a terminated run", err)
	}
	if err := s.Run(t.Context(), b); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("run after Close: got %v, want ErrClosed", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

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
	}
}

// The end of a run's context stops that run only, and one that comes too late is not begun.
func TestContextStopsRun(t *testing.T) {
	s := openGraph(t, slowModel())
	slow := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{1024, 1024}, Data: make([]byte, 4<<20)}
	ctx, cancel := context.WithCancel(t.Context())
	stopped, other := make(chan error, 1), make(chan error, 1)
	b := batchOf(t, s, slow)
	go func() { stopped <- s.Run(ctx, b) }()
	weftest.Until(t, "a run that can be stopped", func() bool { return s.Stoppable() > 0 })
	cancel()
	if err := <-stopped; engine.KindOf(err) != engine.Terminated {
		t.Errorf("a run whose context ended: %v, want a terminated run", err)
	}
	if err := s.Run(ctx, b); engine.KindOf(err) != engine.Terminated || !errors.Is(err, context.Canceled) ||
		s.Stoppable() != 0 {
		t.Errorf("a run after its context ended: %v", err)
	}
	go func() { other <- s.Run(t.Context(), b) }()
	weftest.Until(t, "a run that can be stopped", func() bool { return s.Stoppable() > 0 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-other; engine.KindOf(err) != engine.Terminated {
		t.Errorf("a run with a context during Close: %v, want a terminated run", err)
	}
}
