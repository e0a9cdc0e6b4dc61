package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// heavy is a model whose full batches take the device some milliseconds.
type heavy struct {
	width, rows, layers int
	target              time.Duration // 0: a second
}

// requestRows returns how many rows a request brings: so many that the callers do not bound the load.
func (h *heavy) requestRows() int { return h.rows / 8 }

// load returns so many callers of the named model that they fill that many batches.
func (h *heavy) load(name string, batches int) *load {
	return &load{
		request: rowsOf(name, inputName, h.requestRows(), inputWidth), callers: batches * h.rows / h.requestRows(),
	}
}

// heavyModel finds out how many layers make a batch take as long as it should.
func (s *suite) heavyModel() (*heavy, error) {
	h := &heavy{width: 256, rows: 16}
	if s.onGPU() {
		// At this width a GPU is busy with each layer for longer than it takes to start one.
		h.width, h.rows = 4096, 64
	}
	const layers, most = 32, 5000
	path := filepath.Join(s.repository("probe"), "deep.onnx")
	if err := harness.Write(path, deep(h.width, layers)); err != nil {
		return nil, err
	}
	p, err := s.engine.loop(path, h.rows, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	const batch = 8 * time.Millisecond // time that a full batch is to take
	h.layers = min(max(int(layers*batch/max(p.least, 1)), 2), most)
	return h, nil
}

// placeHeavy writes the model with that many layers into a repository and returns the model file.
func (s *suite) placeHeavy(repository, name string, h *heavy, weight float64, layers int) (string, error) {
	// The proof of batching would compare sums over hundreds of layers, whose last digits depend on the batch size.
	return s.place(repository, name, deep(h.width, layers), "", fmt.Sprintf("weight: %g\ntarget_latency: %v\n"+
		"max_latency: 30s\nbatching: {mode: \"on\", max_batch_size: %d, max_batch_cost: 1s}\n", weight,
		cmp.Or(h.target, time.Second), h.rows))
}

// place writes a model into a repository, with settings of onnx, each after a comma, and other lines of its manifest.
// It returns the model file.
func (s *suite) place(repository, name string, network []byte, onnx, more string) (path string, err error) {
	path = filepath.Join(repository, name, "1", "model.onnx")
	if err := harness.Write(path, network); err != nil {
		return "", err
	}
	return path, harness.Write(filepath.Join(repository, name, "model.yaml"),
		fmt.Appendf(nil, "onnx: {providers: [%s]%s}\n%s", s.provider(), onnx, more))
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
