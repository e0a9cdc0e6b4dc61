// Package execution turns requests into executions and their outputs into answers: it joins the rows of several
// requests in one batch, makes an engine run it, and gives each request its rows; where a run fails it finds the
// requests that are the cause, and answers the others.
//
// A Job is a request on its way through the scheduler, a Unit executes jobs: it is a session, the memory of its
// batches, and a Plan that says how rows are joined. An execution reports a Finding about the unit itself to the unit's
// Owner.
package execution

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// execution is one call of Execute. It owns its buffers until the end of the call.
type execution struct {
	ctx     context.Context //nolint:containedctx // an execution is one call, of whose methods each may run the engine
	unit    *Unit
	session engine.Session
	plan    *Plan
	buf     *buffers

	deviceTime time.Duration // 0 where only the elapsed time is known
	runs       int           // of the engine, begun
	failed     bool          // some run failed
	found      Finding
	answered   *atomic.Int32 // see UndecidedError; nil until there is one
}

// part is the rows of one span that a run executes: all of them, or some where a batch is halved for lack of memory.
type part struct {
	span        *sharedsched.Span
	job         *Job
	first, rows int
}

// execute runs a batch on a device that works, and answers or fails every span of it. It is called on a batch thread.
func (u *Unit) execute(b *sharedsched.Batch) sharedsched.Report {
	buf := u.buffers.take()
	defer u.buffers.give(buf)
	ctx := u.context()
	pprof.SetGoroutineLabels(ctx) // they stay until the batch thread executes for another unit
	x := execution{ctx: ctx, unit: u, session: u.session, plan: u.Plan().during(b.Spans), buf: buf}
	for i := range b.Spans {
		s := &b.Spans[i]
		if j := s.Payload.(*Job); s.Rows == j.Rows || !j.complete() {
			buf.parts = append(buf.parts, part{span: s, job: j, first: s.First, rows: s.Rows})
		}
	}
	// All jobs were answered as a whole by other executions.
	if len(buf.parts) == 0 {
		return sharedsched.Report{Unusable: true}
	}
	err := x.run(buf.parts, x.plan.Padded(b.Padded)) // a job that runs alone is not padded yet
	if err != nil {
		x.recoverFrom(err, buf.parts)
		x.countMates(b.Spans)
	}
	// Where nothing could be answered in smaller parts, the size was not the cause. A job that cannot be run in parts,
	// such as one of the sizes that warm-up tries, does not show the cause, and is taken to have been too large.
	ranOut := engine.KindOf(err) == engine.OutOfMemory && (!x.plan.Batched && b.Rows > 1 ||
		slices.ContainsFunc(b.Spans, func(s sharedsched.Span) bool { return s.Err == nil }))
	// It comes before the jobs end, as Owner.Found says: requests that follow find its consequences.
	if x.found != (Finding{}) {
		u.Owner.Found(x.found)
	}
	return sharedsched.Report{
		DeviceTime: x.deviceTime, Unusable: x.failed, OutOfMemory: ranOut, Failure: x.failure(err), Reruns: x.runs - 1,
	}
}

// failure returns why the execution failed, by the error of its first run: smaller runs may have answered all requests.
func (x *execution) failure(err error) sharedsched.Failure {
	switch {
	case x.found.Lost != nil:
		return sharedsched.LostDevice
	case engine.KindOf(err) == engine.OutOfMemory:
		return sharedsched.OutOfMemory
	case err != nil:
		return sharedsched.ModelFailed
	}
	return sharedsched.NotFailed
}

// run executes the parts once, as an execution of size rows, and answers their jobs. After an error no job is answered.
// A panic on the way, in the engine or because memory ran out, becomes an error.
func (x *execution) run(parts []part, size int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e, is := p.(error)
			switch {
			case is && (engine.KindOf(e) == engine.AnswerTooLarge || engine.KindOf(e) == engine.NotOpen):
				err = e
			case is:
				err = fmt.Errorf("the run panicked: %w", e)
			default:
				err = fmt.Errorf("the run panicked: %v", p)
			}
			switch engine.KindOf(err) {
			case engine.OutOfMemory, engine.AnswerTooLarge, engine.NotOpen: // they say why
			default:
				// The stack helps nobody but the operator, so it does not travel with the error.
				x.unit.Log.Error("run panicked", "event", "run_panicked", "model", x.unit.Model,
					"version", x.unit.Version, "panic", p, "stack", string(debug.Stack()))
			}
		}
		x.failed = x.failed || err != nil
		if engine.KindOf(err) == engine.DeviceLost {
			x.found.Lost = err
		}
	}()
	x.runs++
	began := time.Now()
	x.assemble(parts, size)
	assembled := time.Now()
	// An output that stays Invalid was not written by this run (scatter).
	for i := range x.buf.batch.Outputs {
		x.buf.batch.Outputs[i].DType = tensor.Invalid
	}
	// The engine stops before it gives more: the answer could not be sent.
	x.buf.batch.Most = x.most(parts, size)
	if err := x.compute(size); err != nil {
		return err
	}
	computed := time.Now()
	if err := x.scatter(parts, size); err != nil {
		return err
	}
	x.count(parts, catalog.Phases{
		Input: assembled.Sub(began), Run: computed.Sub(assembled), Output: time.Since(computed),
		Process: x.buf.batch.Process,
	})
	return nil
}

// count adds the phases of a run to its jobs and to the unit's counts.
func (x *execution) count(parts []part, took catalog.Phases) {
	rows := 0
	for i := range parts {
		rows += parts[i].rows
		parts[i].job.took(took)
	}
	x.unit.Counts.add(rows, took)
}

// compute has the engine run the batch, under the watch for runs that hang. In quarantine the run may take the longest
// time allowed, so that a rare large request is told from one that hangs.
func (x *execution) compute(rows int) (err error) {
	b := x.buf.batch
	usual, most := x.unit.Owner.Patience(rows)
	b.DeviceTime, b.Patience, b.Turn, b.Waited = 0, usual, 0, 0
	err = errPanicked // as those see it who are told of the end, unless the session returns
	if x.session == x.unit.session {
		x.buf.watch.run(x.unit)
		defer func() { x.buf.watch.ended(err, b.Waited) }()
	} else { // in quarantine, where a rare large request is told from one that hangs
		b.Patience, b.Turn = most, usual
		began := time.Now()
		defer func() { x.unit.pace.note(time.Since(began)-b.Waited, err) }()
	}
	defer func() { x.deviceTime += b.DeviceTime }()
	return x.session.Run(x.ctx, b)
}

// errPanicked is what the watch sees as the end of a run unless the session returns.
var errPanicked = errors.New("the run panicked")
