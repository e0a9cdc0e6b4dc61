package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// heavy is a model whose full batches take the device some milliseconds.
type heavy struct {
	width, rows int
	batch       time.Duration // time that a full batch is to take
	layers      int           // that it takes for that
}

// requestRows returns how many rows a request brings: so many that the callers do not bound the load.
func (h *heavy) requestRows() int { return max(h.rows/8, 1) }

// callersOf returns how many callers fill that many full batches.
func (h *heavy) callersOf(batches int) int { return batches * h.rows / h.requestRows() }

func (h *heavy) request(name string) *weftv1.PredictRequest {
	return rowsOf(name, inputName, h.requestRows(), inputWidth, randomFloats(h.requestRows()*inputWidth))
}

// heavyModel finds out how many layers make a batch take as long as it should.
func (s *suite) heavyModel() (*heavy, error) {
	h := &heavy{width: 256, rows: 16, batch: 8 * time.Millisecond}
	if s.onGPU() {
		// At this width a GPU is busy with each layer for longer than it takes to start one.
		h.width, h.rows = 4096, 64
	}
	const layers = 32
	path := filepath.Join(s.repository("probe"), "deep.onnx")
	if err := write(path, deep(h.width, layers)); err != nil {
		return nil, err
	}
	p, err := s.engine.loop(path, h.rows, 1, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	const most = 5000
	h.layers = min(max(int(layers*h.batch/max(p.least, 1)), 2), most)
	return h, nil
}

// place writes the model with a part of its layers into a repository and returns the model file.
func (h *heavy) place(repository, name, provider string, weight float64, layers int) (string, error) {
	path := filepath.Join(repository, name, "1", "model.onnx")
	if err := write(path, deep(h.width, layers)); err != nil {
		return "", err
	}
	// The proof of batching would compare sums over hundreds of layers, whose last digits depend on the batch size.
	manifest := fmt.Sprintf("onnx: {providers: [%s]}\nweight: %g\ntarget_latency: 1s\nmax_latency: 30s\n"+
		"batching: {mode: \"on\", max_batch_size: %d, max_batch_cost: 1s}\n", provider, weight, h.rows)
	return path, write(filepath.Join(repository, name, "model.yaml"), []byte(manifest))
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
