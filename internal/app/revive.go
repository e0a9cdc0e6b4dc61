package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// The pauses between attempts to use a lost GPU again.
const (
	firstRevival = time.Second
	lastRevival  = 5 * time.Minute
)

// revive is host.Config.Revive: it returns nil once a lost GPU has run a model again, in another process. A CUDA
// context dies with its process, so that most losses are of the process and not of the GPU. The error says that there
// is no other process, or is the cause of ctx.
func (e *engines) revive(ctx context.Context, device string) error {
	at := slices.IndexFunc(e.devices.gpus, func(g cudaDevice) bool { return g.name == device })
	if e.workers == nil || at < 0 {
		return errors.New("it is used by the server's process, which does not get it back")
	}
	return untilWorks(ctx, func() error { return e.probe(ctx, e.devices.gpus[at]) })
}

// untilWorks calls try until it returns nil, after pauses that double from firstRevival up to lastRevival. Each attempt
// starts a process and takes seconds, and a GPU that is broken may stay so for days.
func untilWorks(ctx context.Context, try func() error) error {
	for pause := firstRevival; ; pause = min(2*pause, lastRevival) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		if try() == nil {
			return nil
		}
	}
}

// probeTime is how long a GPU may take for a probe: to start a process, CUDA and its libraries in it, and a model.
const probeTime = time.Minute

// probe runs a model of one operation on a GPU, in the worker in which models will then be opened.
func (e *engines) probe(ctx context.Context, on cudaDevice) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	model := onnxgraph.New("probe").Input("x", onnxgraph.Float, 4).Output("y", onnxgraph.Float, 4).
		Node("Add", []string{"x", "x"}, []string{"y"}).Marshal()
	file, err := os.CreateTemp("", "weft-probe-*")
	if err != nil {
		return err
	}
	defer file.Close()
	// The open file is enough: its name is removed before anything can fail.
	_, wrong := file.Write(model)
	if err := errors.Join(os.Remove(file.Name()), wrong); err != nil {
		return fmt.Errorf("cannot write the probe: %w", err)
	}
	source := ort.Source{Path: "probe", Model: ort.Extent{Size: int64(len(model))}}
	opened, err := e.workers.Open(ctx, worker.Place{Device: on.name, Version: "probe"}, onnxModel{
		source, on.name, ort.Options{Providers: []string{ort.CUDA}, DeviceID: on.id},
	}, file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Session.Close()) }()
	b := tensor.NewBatch(1, 1, opened.Memory)
	defer b.Free()
	// The first run initializes CUDA's libraries, which takes seconds.
	b.Patience = probeTime
	// Zeros will do: it only matters whether the GPU computes.
	clear(b.Input(0, tensor.Float32, tensor.Shape{4}, 16))
	return opened.Session.Run(ctx, b)
}
