package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// predictQuarantined answers a call whose batch ended the engine's process, or hung. It runs where nothing else does,
// outside of the scheduler. The call that ends that process too is the cause, and is not run a third time.
func (r *Replica) predictQuarantined(ctx context.Context, call *catalog.Call, arrival time.Time) error {
	start := time.Now()
	call.Outcome.Queue += call.Outcome.Compute // of the batch before, which gave it nothing
	defer func() {
		call.Outcome.Compute = time.Since(start)
		call.Outcome.Batch, call.Outcome.Ended = 0, 0
	}()
	for {
		t, begun, cause := r.try(call)
		if cause != nil {
			return r.crash(cause)
		}
		err := t.await(ctx, LimitOf(call, arrival))
		if err != nil {
			return err
		}
		if !begun {
			continue // it was another call's
		}
		call.Outcome.Executions++
		if err = t.err; err == nil {
			call.Results, err = t.job.Join()
		}
		return err
	}
}

// submitTried submits a job for which no caller waits, and runs it in quarantine if it may be the cause of a crash.
func (r *Replica) submitTried(ctx context.Context, j *execution.Job) (sharedsched.Outcome, error) {
	outcome, err := r.submit(ctx, j)
	if r.suspects(err) {
		j.Forget()
		outcome.DeviceTime, err = r.quarantine(ctx, j, j.Rows)
	}
	return outcome, err
}

// suspects reports whether an error is that of a job which may be the cause of a crash, as a quarantine can show.
func (r *Replica) suspects(err error) bool {
	undecided, is := errors.AsType[*execution.UndecidedError](err)
	return is && undecided.Crashed() && r.unit.HasQuarantine()
}

// quarantine runs a job in the engine's quarantine, in executions of at most so many rows, and returns how long they
// took. A *catalog.ModelError is the job's own fault; a crash is proven by it, and counts for more than the cause of
// ctx, which counts for more than any other error. catalog.ErrUntried: it could not be run there.
func (r *Replica) quarantine(ctx context.Context, j *execution.Job, most int) (took time.Duration, err error) {
	if !r.sit() { // its session must not be closed meanwhile
		return 0, sharedsched.ErrRemoved
	}
	defer func() { r.tellUnclean(r.Device, r.vacate()) }()
	took, err = r.unit.Quarantine(ctx, j, most)
	defer func() { r.shared.tried(r.Version, err) }()
	switch kind := engine.KindOf(err); {
	case err == nil:
		return took, nil
	case kind == engine.Crashed:
		return took, r.crash(err)
	case ctx.Err() != nil:
		return took, context.Cause(ctx)
	case kind == engine.DeviceLost:
		return took, sharedsched.ErrRemoved // it says nothing about the job, which may run elsewhere
	case kind == engine.Terminated, kind == engine.NotOpen: // nor does this, but it may crash the model elsewhere
		return took, fmt.Errorf("model %q version %d: %w: %w; try again", r.Model, r.Number, catalog.ErrUntried, err)
	case kind == engine.AnswerTooLarge:
		return took, err
	}
	return took, &catalog.ModelError{Model: r.Model, Version: r.Number, Err: err}
}

// tried reports the end of a run in quarantine.
func (s *Shared) tried(v *Version, err error) {
	if s.Tried == nil {
		return
	}
	failed, is := errors.AsType[*catalog.ModelError](err)
	switch {
	case err == nil:
		s.Tried(v.Model, v.Number, "answered")
	case is && failed.Crashed:
		s.Tried(v.Model, v.Number, "crashed")
	case undecided(err):
		s.Tried(v.Model, v.Number, "undecided")
	default:
		s.Tried(v.Model, v.Number, "failed")
	}
}

// undecided reports whether a run in quarantine that ended with err did not show whether it ends the engine's process.
func undecided(err error) bool {
	_, failed := errors.AsType[*catalog.ModelError](err)
	return err != nil && !failed && engine.KindOf(err) != engine.AnswerTooLarge
}

// crash returns the error of a request that ended the engine's process.
func (v *Version) crash(cause error) error {
	failed := &catalog.ModelError{
		Model: v.Model, Version: v.Number, Crashed: true, Signal: engine.SignalOf(cause), Err: cause,
	}
	if e, is := errors.AsType[*engine.BoundError](cause); is {
		failed.Exceeded = e.Bound
	}
	return failed
}
