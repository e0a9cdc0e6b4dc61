package ort

import (
	"context"
	"runtime"

	"github.com/weftserve/weft/runtime/engine"
)

// thread runs functions, one after the other, on one thread of the operating system.
type thread struct {
	jobs    chan func()
	stopped chan struct{} // closed by stop
	ended   chan struct{} // closed when the thread has ended
}

func newThread() *thread {
	t := &thread{jobs: make(chan func()), stopped: make(chan struct{}), ended: make(chan struct{})}
	go t.serve()
	return t
}

func (t *thread) serve() {
	defer close(t.ended)
	runtime.LockOSThread() // for good: the thread ends with the goroutine, and ONNX Runtime's state for it
	for {
		select {
		case f := <-t.jobs:
			f()
		case <-t.stopped:
			return
		}
	}
}

// do waits for its turn, runs f on the thread and returns nil when that has ended. A panic of f is one here. An error
// says that f was not run: ctx has ended before, or the thread was stopped.
func (t *thread) do(ctx context.Context, f func()) error {
	panicked := make(chan any, 1)
	job := func() {
		defer func() { panicked <- recover() }()
		f()
	}
	select {
	case t.jobs <- job:
	case <-ctx.Done():
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	case <-t.stopped:
		return engine.ErrClosed
	}
	if p := <-panicked; p != nil {
		panic(p)
	}
	return nil
}

// stop ends the thread after the function that it runs. It is called once.
func (t *thread) stop() {
	close(t.stopped)
	<-t.ended
}
