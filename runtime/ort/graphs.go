package ort

/*
#include <stdlib.h>
#include "graph.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/weftserve/weft/runtime/tensor"
)

// graphDevice is where graphs are captured: an execution provider, and ONNX Runtime's word for its memory.
var graphDevice = struct{ provider, memory string }{CUDA, "Cuda"}

const (
	// maxGraphs bounds the shapes that have a graph: each has device memory for its inputs and outputs.
	maxGraphs = 64
	// maxShapes bounds the shapes that are remembered.
	maxShapes = 1024
)

// graphs runs a session that captures CUDA graphs. All its runs are on one thread, since ONNX Runtime keeps what was captured with the
// thread that did, and one stream, which a capture must have for itself.
type graphs struct {
	s    *Session
	cuda *C.weft_cuda
	jobs chan graphJob
	done chan struct{} // closed when the thread has ended

	// Of the thread.
	shapes   map[string]*graph
	captured int
	scratch  *tensor.Batch // for answers that are compared
	frame    *frame        // for graphs

	broken atomic.Pointer[error] // why the session is not fit for graphs
}

type graphJob struct {
	batch  *tensor.Batch
	frame  *frame
	result chan<- graphResult
}

type graphResult struct {
	err error
	// again: the session must run it anew, without graphs.
	again    bool
	panicked any
}

// Graphs tells how many of the session's runs were answered by a captured CUDA graph alone, and how many of those that were answered
// were not.
func (s *Session) Graphs() (replayed, eager uint64) {
	return s.counts.replayed.Load(), s.counts.eager.Load()
}

// GraphFailures counts the shapes that could not be captured, or whose graph gave other answers than a run without, and adds one when
// the session has given up graphs as a whole.
func (s *Session) GraphFailures() uint64 { return s.counts.failed.Load() }

func startGraphs(s *Session) (*graphs, error) {
	cuda, err := loadCUDA()
	if err != nil {
		return nil, err
	}
	if err := take(s.api, C.weft_session_eager(s.native.c)); err != nil {
		return nil, err
	}
	g := &graphs{
		s: s, cuda: cuda, jobs: make(chan graphJob), done: make(chan struct{}), shapes: map[string]*graph{},
		scratch: tensor.NewBatch(0, len(s.signature.Outputs)), frame: s.frames.New().(*frame),
	}
	go g.serve()
	return g, nil
}

// run executes a batch on the thread and waits. A panic there is one here.
func (g *graphs) run(b *tensor.Batch, f *frame) (again bool, err error) {
	result := make(chan graphResult, 1)
	g.jobs <- graphJob{b, f, result}
	r := <-result
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.again, r.err
}

// stop ends the thread and frees the graphs. No run may be under way or follow.
func (g *graphs) stop() {
	close(g.jobs)
	<-g.done
}

func (g *graphs) serve() {
	defer close(g.done)
	runtime.LockOSThread() // for good: the thread ends with the goroutine, and what ONNX Runtime keeps for it
	for job := range g.jobs {
		job.result <- g.execute(job)
	}
	device.opening.RLock()
	defer device.opening.RUnlock()
	for _, e := range g.shapes {
		e.free()
	}
	g.scratch.Free()
}

func (g *graphs) execute(job graphJob) (r graphResult) {
	defer func() { r.panicked = recover() }()
	r.again, r.err = g.choose(job.batch, job.frame)
	return r
}

// choose replays the graph of the batch's shape if there is a proven one, and brings it nearer to having one if not: the first run is
// eager alone, since kernels take memory and choose algorithms then. The next one captures, beside answering eagerly. Then the
// first with other inputs is answered both ways, because what a kernel computed on the host would stay what it was at the capture.
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
		if lost, is := errors.AsType[*Error](err); is && lost.DeviceLost() {
			g.s.abandoned.Store(true)
			return false, err
		}
		g.breakDown(err)
		return true, nil
	}
	if err := g.s.runTwice(b, f); err != nil {
		if lost, is := errors.AsType[*Error](err); is && lost.DeviceLost() && g.captured > 0 {
			g.s.abandoned.Store(true)
		}
		return false, err
	}
	g.s.counts.eager.Add(1)
	switch {
	case e == nil:
	case e.state == unseen:
		e.state = seen
	case e.state == seen && g.captured < maxGraphs:
		g.capture(e, b)
	case e.state == unproven:
		g.prove(e, b)
	}
	return false, nil
}

// shape returns what is known of the shape of a batch, nil if that is not to be remembered.
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

// describe points the thread's frame at tensors.
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
	device.running.RLock()
	defer device.running.RUnlock()
	return take(g.s.api, C.weft_graph_run(e.c, &g.frame.values[0]))
}

// capture captures the shape of a batch that was answered eagerly, and compares.
func (g *graphs) capture(e *graph, b *tensor.Batch) {
	if !device.opening.TryLock() {
		return // another time
	}
	defer device.opening.Unlock()
	device.running.Lock()
	defer device.running.Unlock()
	e.learn(b)
	e.declare(g.scratch.Output)
	g.describe(b.Inputs, g.scratch.Outputs)
	id := g.captured + 1 // 0 has another meaning
	name := C.CString(graphDevice.memory)
	defer C.free(unsafe.Pointer(name))
	made := new(*C.weft_graph)
	err := take(g.s.api, C.weft_graph_new(g.s.native.c, g.cuda, name, C.int(g.s.options.DeviceID), C.int(id),
		&g.frame.values[0], g.frame.firstDim(), made))
	e.c = *made
	if err != nil {
		g.refuse(e, err) // nothing was captured: the session is sound
		return
	}
	g.captured++
	if err := take(g.s.api, C.weft_graph_run(e.c, &g.frame.values[0])); err != nil {
		g.breakDown(err)
		return
	}
	e.state = unproven
	if !g.compare(e, b) {
		e.free()
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
	device.opening.RLock()
	defer device.opening.RUnlock()
	e.free()
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

// refuse gives up the graph of one shape. The caller frees it.
func (g *graphs) refuse(e *graph, why error) {
	e.state = refused
	g.s.counts.failed.Add(1)
	g.s.log.Warn("a CUDA graph is not used; its shape runs without", "path", g.s.path, "shape", e.inputs, "cause", why)
}

// breakDown gives up graphs for the session: a stream whose capture failed may be of no further use.
func (g *graphs) breakDown(why error) {
	g.s.counts.failed.Add(1)
	g.s.log.Warn("CUDA graphs are given up; the model is loaded again without", "path", g.s.path, "cause", why)
	g.broken.Store(&why)
}
