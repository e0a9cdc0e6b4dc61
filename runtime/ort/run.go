package ort

/*
#include "capi.h"
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// frame is the memory of one run that is not the batch's, kept for the next one. It holds no pointer into the Go heap.
type frame struct {
	values []C.weft_value // inputs, then outputs
	dims   tensor.Shape   // of all values, one after the other
	marks  marks
	// options are of this run only, by which it is stopped when its context ends; nil: the options that all runs of the
	// session share.
	options *C.OrtRunOptions
}

// Run executes the model on the batch's inputs and declares and fills each output. Inputs must lie in the batch's own
// memory (tensor.Batch.Input). Where the model's declaration determines an output's shape the model writes into the
// batch directly; other outputs are copied once. An error of ONNX Runtime is an *Error; no output is then valid. The
// end of ctx stops the run before its next operator, unless the session captures CUDA graphs: then it only keeps the
// run from being started. On a CUDA device a session runs one batch at a time; b.DeviceTime does not count the wait for
// another, and b.Patience begins after it. On the CPU with one thread, b.DeviceTime is the thread's processor time.
func (s *Session) Run(ctx context.Context, b *tensor.Batch) (err error) {
	if err := s.check(b.Inputs); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	}
	if s.thread == nil {
		return s.runHere(ctx, b)
	}
	notRun := s.thread.do(ctx, func() {
		start := time.Now()
		err = s.runHere(ctx, b)
		b.DeviceTime = time.Since(start)
	})
	return cmp.Or(notRun, err)
}

// runHere is Run on the thread that the session runs on.
func (s *Session) runHere(ctx context.Context, b *tensor.Batch) (err error) {
	ctx, judge := engine.WithPatience(ctx, b)
	defer judge(&err)
	if s.threadTime {
		// Locked around the run only: a goroutine that keeps its thread cannot be scheduled cheaply.
		runtime.LockOSThread()
		start := threadTime()
		defer func() {
			b.DeviceTime = threadTime() - start
			runtime.UnlockOSThread()
		}()
	}
	var g *graphs
	g, err = s.attempt(ctx, b)
	if g != nil && g.broken.Load() != nil {
		// The graphs have failed. If they took the run along, it is repeated without them.
		if failed := s.dropGraphs(g); failed != nil {
			s.log.Error("model session lost", "event", "session_lost", "path", s.source.Path, "cause", failed)
		}
	}
	if errors.Is(err, errAgain) {
		if err = s.restore(); err == nil {
			_, err = s.attempt(ctx, b)
		}
	}
	return err
}

// threadTime returns the processor time that the calling thread has used. Every system that Weft runs on has that
// clock: without it, it panics.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(fmt.Sprintf("the thread's processor time cannot be read: %v", err))
	}
	return time.Duration(ts.Nano())
}

var errAgain = errors.New("the run needs another native session")

// attempt runs a batch, and returns the graphs that the session had then, if any.
func (s *Session) attempt(ctx context.Context, b *tensor.Batch) (*graphs, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() {
		return nil, engine.ErrClosed
	}
	if s.native == nil {
		return nil, errAgain
	}
	f := s.frames.Get().(*frame)
	defer s.frames.Put(f)
	f.dims = f.dims[:0]
	for i, in := range b.Inputs {
		f.set(i, in)
		if in.DType == tensor.String {
			n, _ := in.Shape.Elements() // checked above
			f.values[i].elements = C.size_t(n)
		}
	}
	if s.graphs != nil {
		again, err := s.graphs.choose(b, f)
		switch {
		case again:
			err = errAgain
		case err == nil:
			s.follow(b)
		}
		return s.graphs, err
	}
	if ctx.Done() != nil {
		release, err := s.stopWith(ctx, f)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	err := s.runTwice(b, f)
	if err == nil {
		s.counts.eager.Add(1)
		s.follow(b)
	}
	return nil, err
}

// runTwice runs a batch as the model's declaration has it, and once more where the declaration is wrong, or an output
// was not written where it was expected. With b.Copied only the second.
func (s *Session) runTwice(b *tensor.Batch, f *frame) error {
	if b.Copied || s.unpredictable.Load() {
		return s.run(b, f, false)
	}
	f.marks.next()
	err := s.run(b, f, true)
	if e, is := errors.AsType[*Error](err); !(is && e.shapeMismatch()) && (err != nil || !f.marks.left(b.Outputs)) {
		return err
	}
	if err = s.run(b, f, false); err == nil && !f.marks.left(b.Outputs) { // else it is the model's answer
		s.unpredictable.Store(true)
	}
	return err
}

// check keeps inputs that the model does not declare, and such as would be read beyond their end, away from native
// code.
func (s *Session) check(inputs []tensor.Tensor) error {
	if n := len(inputs); n < len(s.signature.Inputs) || n > s.signature.MostInputs() {
		return fmt.Errorf("the batch has %d inputs, the model takes %d", n, len(s.signature.Inputs))
	}
	for i, in := range inputs {
		spec, optional := s.signature.Takes(i)
		if optional && in.DType == tensor.Invalid {
			continue
		}
		if in.DType != spec.DType || !spec.Shape.Accepts(in.Shape) {
			return fmt.Errorf("input %q: expected %v %v, got %v %v", spec.Name, spec.DType, spec.Shape, in.DType,
				in.Shape)
		}
		if err := in.Check(); err != nil {
			return fmt.Errorf("input %q: %w", spec.Name, err)
		}
	}
	return nil
}

// run executes once. With predicted, outputs of predictable shape are declared beforehand.
func (s *Session) run(b *tensor.Batch, f *frame, predicted bool) error {
	for i, spec := range s.signature.Outputs {
		at := len(b.Inputs) + i
		f.values[at] = C.weft_value{}
		if predicted && s.predictions[i] != nil {
			s.place(b, f, i, spec)
		}
	}
	if err := s.call(f, len(b.Inputs)); err != nil {
		return err
	}
	outputs := f.values[len(b.Inputs):]
	// Deferred, because collect panics where the batch has no memory for an output.
	defer s.release(outputs)
	for i := range outputs {
		if v := &outputs[i]; v.value != nil {
			if err := s.collect(b, i, v.value); err != nil {
				return err
			}
			s.release(outputs[i : i+1]) // at once: all outputs need not be held twice
		}
	}
	return nil
}

func (s *Session) call(f *frame, inputs int) error {
	if onCUDA(s.provider) {
		device.running.enter()
		defer device.running.leave()
	}
	return s.take(C.weft_run(s.native.c, f.options, &f.values[0], C.size_t(inputs), f.firstDim()))
}

// take turns a status into an error and releases it, and notes if it says that the session's device is lost. Without a
// GPU nothing can be lost, whatever the text says: it has names that the model chose.
func (s *Session) take(status *C.OrtStatus) error {
	err := take(s.api, status)
	if onCUDA(s.provider) {
		err = askDevice(s.options.DeviceID, err)
	} else if s.provider != graphDevice.provider && engine.KindOf(err) == engine.DeviceLost {
		return &engine.Error{Kind: engine.ModelFailed, Err: err}
	}
	noteLost(s.options.DeviceID, err)
	return err
}

// release gives the values that ONNX Runtime allocated back to it.
func (s *Session) release(values []C.weft_value) {
	for i := range values {
		if v := &values[i]; v.value != nil {
			C.weft_release(s.api, v.value)
			v.value = nil
		}
	}
}

// place declares output i where its shape is predictable for this batch.
func (s *Session) place(b *tensor.Batch, f *frame, i int, spec tensor.Spec) {
	var room [8]int64
	shape, ok := s.predictions[i].shape(room[:0], b.Inputs)
	if !ok {
		return
	}
	n, ok := shape.Elements()
	if !ok || n > maxPredicted/int64(spec.DType.Size()) {
		return
	}
	f.marks.leave(i, b.Output(i, spec.DType, shape, int(n)*spec.DType.Size()))
	f.set(len(b.Inputs)+i, b.Outputs[i])
}

// collect copies an output that ONNX Runtime allocated.
func (s *Session) collect(b *tensor.Batch, i int, value *C.OrtValue) error {
	var extent C.weft_extent
	dims := make(tensor.Shape, 8)
	for {
		err := s.take(C.weft_measure(s.api, value, (*C.int64_t)(&dims[0]), C.size_t(len(dims)), &extent))
		if err != nil {
			return fmt.Errorf("output %q: %w", s.signature.Outputs[i].Name, err)
		}
		if int(extent.rank) <= len(dims) {
			break
		}
		dims = make(tensor.Shape, extent.rank)
	}
	dtype := s.signature.Outputs[i].DType
	size := int(extent.elements) * dtype.Size()
	if dtype == tensor.String {
		size = int(extent.elements)*4 + int(extent.string_bytes)
	}
	dst := b.Output(i, dtype, dims[:extent.rank], size)
	if err := s.take(C.weft_copy(s.api, value, &extent, unsafe.Pointer(unsafe.SliceData(dst)),
		C.size_t(size))); err != nil {
		return fmt.Errorf("output %q: %w", s.signature.Outputs[i].Name, err)
	}
	return nil
}

// set describes a tensor, which lies outside the Go heap, as value i.
func (f *frame) set(i int, t tensor.Tensor) {
	f.values[i] = C.weft_value{
		data:  unsafe.Pointer(unsafe.SliceData(t.Data)),
		size:  C.size_t(len(t.Data)),
		dims:  C.size_t(len(f.dims)),
		rank:  C.size_t(len(t.Shape)),
		dtype: C.ONNXTensorElementDataType(elementTypes[t.DType]),
	}
	f.dims = append(f.dims, t.Shape...)
}

func (f *frame) firstDim() *C.int64_t {
	return (*C.int64_t)(unsafe.SliceData(f.dims))
}
