package ort

/*
#include <stdlib.h>
#include "graph.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// graphDevice is where graphs are captured: an execution provider, and ONNX Runtime's words for its memory.
var graphDevice = struct {
	provider, memory string
	kind             C.OrtMemoryInfoDeviceType
}{CUDA, "Cuda", C.WEFT_ON_GPU}

const (
	// maxGraphs bounds the shapes that have a graph: each has device memory for its inputs and outputs.
	maxGraphs = 64
	// maxShapes bounds the shapes that are remembered.
	maxShapes = 1024
)

// A capture holds up everybody who wants a CUDA device while it waits for all who have one, and the answer of its
// own batch. So it gives up after a while, and waits longer the next time, because there may be no moment without a run
// in flight; a hundredth of the time goes into that. The longest wait is near the latency targets that people have, so
// that with longer runs on the device it takes a pause, or luck.
const (
	firstPatience = 4 * time.Millisecond
	lastPatience  = 32 * time.Millisecond
)

// restAfter is the pause after a wait as long as the first patience, or longer, as a multiple of it.
var restAfter = 100

// memoryPause is how long a shape is left alone for whose inputs and outputs the device had no memory.
var memoryPause = time.Minute

// graphs runs a session that captures CUDA graphs, on the session's thread: ONNX Runtime keeps a captured graph with
// the thread that captured it, and runs such a session on one stream, which a capture must have for itself.
type graphs struct {
	s        *Session
	cuda     *C.weft_cuda
	shapes   map[string]*graph
	scratch  *tensor.Batch // for answers that are compared
	frame    *frame        // for graphs
	patience time.Duration // of the next capture: a wait that sufficed for one is likely to do for the next shape
	after    time.Time     // when there may be one; not before

	broken atomic.Pointer[error] // why the session is not fit for graphs
}

func startGraphs(s *Session) (*graphs, error) {
	if len(s.signature.Optional) > 0 {
		return nil, errors.New("the model has inputs with defaults")
	}
	cuda, err := loadCUDA()
	if err != nil {
		return nil, err
	}
	if err := onDevice(s); err != nil {
		return nil, err
	}
	if err := take(s.api, C.weft_session_eager(s.native.c)); err != nil {
		return nil, err
	}
	g := &graphs{
		s: s, cuda: cuda, shapes: map[string]*graph{}, scratch: tensor.NewBatch(0, len(s.signature.Outputs), nil),
		frame: s.frames.New().(*frame), patience: firstPatience,
	}
	return g, nil
}

// onDevice returns an error unless the session takes and gives all values in device memory. A kernel would read its
// inputs on the host at the capture, and never again; and a copy to the host that was captured would go on writing
// where the value was then.
func onDevice(s *Session) error {
	index := new(C.int)
	for _, output := range []bool{false, true} {
		if err := s.take(C.weft_find_elsewhere(s.api, s.native.c.session, graphDevice.kind, C.bool(output),
			index)); err != nil {
			return err
		}
		if *index < 0 {
			continue
		}
		what, side := "input", C.weft_side(C.WEFT_INPUT)
		if output {
			what, side = "output", C.WEFT_OUTPUT
		}
		d, err := describe(s.api, s.native.c.session, side, int(*index))
		if err != nil {
			return err
		}
		return fmt.Errorf("%s %q is in the host's memory", what, d.spec.Name)
	}
	return nil
}

// close frees the graphs.
func (g *graphs) close() {
	device.opening.enter()
	defer device.opening.leave()
	for _, e := range g.shapes {
		g.free(e)
	}
	g.scratch.Free()
}

// choose replays the graph of the batch's shape if there is a proven one, and brings it nearer to having one if not:
// the first run is eager alone, since kernels take memory and choose algorithms then. The next one captures, besides
// answering eagerly. Then the first with other inputs is answered both ways, because a value that a kernel computed on
// the host would stay the same as at the capture.
func (g *graphs) choose(b *tensor.Batch, f *frame) (again bool, err error) {
	if g.broken.Load() != nil {
		return true, nil
	}
	e := g.shape(f)
	if e != nil && e.state == proven {
		e.declare(b.Output)
		g.describe(b.Inputs, b.Outputs)
		err := g.replay(e)
		if err == nil {
			g.s.counts.replayed.Add(1)
			return false, nil
		}
		if engine.KindOf(err) == engine.DeviceLost {
			return false, err
		}
		g.breakDown(err)
		return true, nil
	}
	if err := g.s.runTwice(b, f); err != nil {
		return false, err
	}
	g.s.counts.eager.Add(1)
	switch {
	case e == nil:
	case e.state == unseen:
		e.state = seen
	case e.state == seen && g.s.native.captures < maxGraphs && !time.Now().Before(e.after):
		g.capture(e, b)
	case e.state == unproven:
		g.prove(e, b)
	}
	return false, nil
}

// shape returns the state of the shape of a batch, nil if that is not to be remembered.
func (g *graphs) shape(f *frame) *graph {
	inputs := f.dims[:g.s.inputDims]
	key := unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(inputs))), len(inputs)*8)
	if e := g.shapes[key]; e != nil {
		return e
	}
	if len(g.shapes) >= maxShapes {
		return nil
	}
	e := &graph{}
	g.shapes[string([]byte(key))] = e
	return e
}

// size returns the bytes of tensors.
func size(all []tensor.Tensor) (n int64) {
	for _, t := range all {
		n += int64(len(t.Data))
	}
	return n
}

// describe points the frame at tensors.
func (g *graphs) describe(inputs, outputs []tensor.Tensor) {
	g.frame.dims = g.frame.dims[:0]
	for i, t := range inputs {
		g.frame.set(i, t)
	}
	for i, t := range outputs {
		g.frame.set(len(inputs)+i, t)
	}
}

func (g *graphs) replay(e *graph) error {
	device.running.enter()
	defer device.running.leave()
	return g.s.take(C.weft_graph_run(e.c, &g.frame.values[0]))
}

// seize shuts everybody else out of the CUDA devices until end is called, or gives up until later and returns nil.
func (g *graphs) seize() (end func()) {
	start := time.Now()
	if start.Before(g.after) {
		return nil
	}
	end = seize(start.Add(g.patience))
	// A shorter wait did not suffice only if another session captures just now.
	if waited := time.Since(start); waited >= firstPatience {
		g.after = time.Now().Add(time.Duration(restAfter) * waited)
		if end == nil {
			g.patience = min(2*g.patience, lastPatience)
		}
	}
	return end
}

// capture captures the shape of a batch that was answered eagerly, and compares. The batch's answer waits for that:
// sent before, it would have the next batch wait in its place, which the scheduler hands over meanwhile to a device
// that it takes for idle.
func (g *graphs) capture(e *graph, b *tensor.Batch) {
	end := g.seize()
	if end == nil {
		return // another time
	}
	defer end()
	e.learn(b)
	e.declare(g.scratch.Output)
	g.describe(b.Inputs, g.scratch.Outputs)
	id := g.s.native.captures + 1 // 0 has another meaning
	name := C.CString(graphDevice.memory)
	defer C.free(unsafe.Pointer(name))
	made := new(*C.weft_graph)
	err := g.s.take(C.weft_graph_new(g.s.native.c, g.cuda, name, C.int(g.s.options.DeviceID), C.int(id),
		&g.frame.values[0], g.frame.firstDim(), made))
	e.c = *made
	if err != nil { // nothing was captured: the session is sound
		if engine.KindOf(err) == engine.OutOfMemory {
			g.postpone(e, err)
		} else {
			g.refuse(e, err)
		}
		return
	}
	g.s.native.captures++
	e.memory = size(b.Inputs) + size(g.scratch.Outputs)
	g.s.memory.graphs.Add(e.memory)
	if err := g.s.take(C.weft_graph_run(e.c, &g.frame.values[0])); err != nil {
		g.breakDown(err)
		return
	}
	e.state = unproven
	if !g.compare(e, b) {
		g.free(e)
	}
}

// prove compares the answers of a graph with those of an eager run on inputs that it was not captured with.
func (g *graphs) prove(e *graph, b *tensor.Batch) {
	if e.sum == checksum(b.Inputs) {
		return
	}
	e.declare(g.scratch.Output)
	g.describe(b.Inputs, g.scratch.Outputs)
	if err := g.replay(e); err != nil {
		g.breakDown(err)
		return
	}
	if g.compare(e, b) {
		e.state = proven
		return
	}
	device.opening.enter()
	defer device.opening.leave()
	g.free(e)
}

// free gives the memory of a graph back. ONNX Runtime keeps its capture, which nobody replays.
func (g *graphs) free(e *graph) {
	if e.c != nil {
		if err := g.s.take(C.weft_graph_free(e.c)); err != nil {
			g.s.native.stuck = err
		}
		e.c = nil
		g.s.memory.graphs.Add(-e.memory)
	}
}

// compare reports whether the scratch batch has the answers of b.
func (g *graphs) compare(e *graph, b *tensor.Batch) bool {
	for i, want := range b.Outputs {
		if !agree(g.scratch.Outputs[i], want) {
			g.refuse(e, fmt.Errorf("output %q is another than without the graph", g.s.signature.Outputs[i].Name))
			return false
		}
	}
	return true
}

// postpone leaves a shape alone for a while for whose graph there is no memory.
func (g *graphs) postpone(e *graph, why error) {
	e.after = time.Now().Add(memoryPause)
	if e.told {
		return
	}
	e.told = true
	g.s.log.Warn("no memory for a CUDA graph", "event", "graph_postponed", "path", g.s.source.Path, "shape", e.inputs,
		"effect", "the shape runs without until there is", "next_try_after", memoryPause, "cause", why)
}

// refuse gives up the graph of one shape for good. The caller frees it.
func (g *graphs) refuse(e *graph, why error) {
	e.state = refused
	g.s.counts.failed.Add(1)
	g.s.log.Warn("CUDA graph refused", "event", "graph_refused", "path", g.s.source.Path, "shape", e.inputs,
		"effect", "the shape runs without", "cause", why)
}

// breakDown gives up graphs for the session: a stream whose capture failed may be of no further use.
func (g *graphs) breakDown(why error) {
	g.s.counts.failed.Add(1)
	g.s.log.Warn("CUDA graphs given up", "event", "graphs_disabled", "path", g.s.source.Path,
		"effect", "the model is loaded again without", "cause", why)
	g.broken.Store(&why)
}
