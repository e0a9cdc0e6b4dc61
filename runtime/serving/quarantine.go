package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/quarantine"
	"github.com/weftserve/weft/sharedsched"
)

// origin returns what poison requests are remembered by: the model, the version, and the digest of its files. Where no
// copy was read, the fingerprint stands for the digest.
func (v *Version) origin() quarantine.Origin {
	o := quarantine.Origin{Model: v.Model, Version: v.Number, Files: v.From.Version.Fingerprint}
	if d := v.copied.digest.Load(); d != nil {
		o.Files = *d
	}
	return o
}

// retry begins a retry of a call in quarantine, suspect or not, and returns its job. The job is nil if equal inputs are
// being retried already, or are poison. It has a copy of the call, because others may wait for its end when the caller
// is gone.
func (r *Replica) retry(call *catalog.Call) (known quarantine.Known, own *execution.Job) {
	ctx, stop := context.WithCancelCause(context.Background())
	// Without a timeout the run of a request that hangs would never end; one of a replica that is gone keeps its session
	// open.
	known, begins := r.shared.quarantine.Begin(r.origin(), call.Inputs, stop,
		func() bool { return r.shared.RunTimeout == 0 || r.gone.Load() })
	if !begins {
		stop(nil)
		return known, nil
	}
	j := &execution.Job{Unit: r.unit, Rows: max(1, call.Rows), Wanted: slices.Clone(call.Wanted)}
	for _, in := range call.Inputs {
		j.Inputs = append(j.Inputs, in.Clone())
	}
	// A request that is larger than a batch is split as it was in the queue: as a whole it might need more memory than
	// any batch.
	most := j.Rows
	if p := r.unit.Plan(); !call.Alone() && p.Batched && p.Most > 0 && p.Most < j.Rows {
		most = p.Most
	} else {
		j.Plan = r.unjoined()
	}
	if !r.shared.Owner.Go(func(closing context.Context) {
		unwatch := context.AfterFunc(closing, func() { stop(context.Cause(closing)) })
		defer unwatch()
		_, err := r.quarantine(ctx, j, most)
		r.retried(known.Retry, err)
	}) {
		// The server stops: nothing is started any more.
		r.retried(known.Retry, sharedsched.ErrClosed)
	}
	return known, j
}

// retried notes how a retry ended, and wakes all that wait for it. A crash here is proven to be the request's own: it
// is logged and remembered, and too many of them have the owner take the version out.
func (r *Replica) retried(t *quarantine.Retry, err error) {
	if errors.Is(err, catalog.ErrUntried) {
		r.shared.Log.Warn("request cannot be tried by itself", "event", "request_untried", "model", r.Model,
			"version", r.Number, "device", r.Device.Name, "cause", err)
	}
	// The cause is what the engine said, without the names of model and version.
	outcome, cause := outcomeOf(err), errors.Unwrap(err)
	if outcome == quarantine.Crashed {
		r.shared.Log.Error("request crashes the model", "event", "request_crashed", "model", r.Model,
			"version", r.Number, "device", r.Device.Name, "cause", cause)
		r.crashing.Lock()
		r.crashes.Proven++
		r.crashes.ProvenAt, r.crashes.Proof = time.Now(), cause.Error()
		r.crashing.Unlock()
	}
	t.End(outcome, err, func() {
		r.shared.Owner.Crashed(r.Version, fmt.Errorf("requests ended the engine's process %d times within %v, each by "+
			"itself; the latest: %w", quarantine.MaxCrashes, quarantine.CrashTime, cause))
	})
}

// awaitRetry waits for the end of a retry, and leaves it in any case: a retry that nobody waits for may be stopped. The
// errors wrap those of Shared.await.
func (r *Replica) awaitRetry(ctx context.Context, t *quarantine.Retry, limit time.Time) error {
	defer t.Leave()
	if err := r.shared.await(ctx, t.Ended(), limit); err != nil {
		return fmt.Errorf("model %q version %d: the request is run by itself, because a run of it, or of others in its "+
			"batch, hung or ended the engine's process: %w", r.Model, r.Number, err)
	}
	return nil
}

// quarantine runs a job in the engine's quarantine, in executions of at most so many rows, and returns how long they
// took. A *catalog.ModelError is the job's own fault. A crash is proven by it, and counts for more than the cause of
// ctx, which counts for more than any other error. catalog.ErrUntried: it could not be run there.
// sharedsched.ErrRemoved: the device is lost, or the session is closed.
func (r *Replica) quarantine(ctx context.Context, j *execution.Job, most int) (took time.Duration, err error) {
	if !r.sit() { // its session must not be closed meanwhile
		return 0, sharedsched.ErrRemoved
	}
	defer func() { r.tellUnclean(r.Device, r.vacate()) }()
	took, err = r.unit.Quarantine(ctx, j, most)
	defer func() {
		if r.shared.Tried != nil {
			r.shared.Tried(r.Model, r.Number, outcomeOf(err).String())
		}
	}()
	switch kind := engine.KindOf(err); {
	case err == nil:
		return took, nil
	case kind == engine.Crashed:
		return took, r.crash(err)
	// Nobody waits for the retry any more, or the server stops: the error is only a consequence.
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

// outcomeOf returns how a run in quarantine ended, by its error.
func outcomeOf(err error) quarantine.Outcome {
	failed, is := errors.AsType[*catalog.ModelError](err)
	switch {
	case err == nil:
		return quarantine.Answered
	case is && failed.Crashed:
		return quarantine.Crashed
	case is, engine.KindOf(err) == engine.AnswerTooLarge:
		return quarantine.Failed
	}
	return quarantine.Undecided
}

// crash returns the error of a request that is proven to end the engine's process.
func (v *Version) crash(cause error) error {
	failed := &catalog.ModelError{
		Model: v.Model, Version: v.Number, Crashed: true, Signal: engine.SignalOf(cause), Err: cause,
	}
	if e, is := errors.AsType[*engine.BoundError](cause); is {
		failed.Exceeded = e.Bound
	}
	return failed
}

// provenCrashes returns the crashes that were proven since the version was loaded, and how many poison requests are
// remembered for its files.
func (v *Version) provenCrashes() catalog.Crashes {
	v.crashing.Lock()
	defer v.crashing.Unlock()
	c := v.crashes
	c.Remembered = v.shared.quarantine.Poison(v.origin())
	return c
}
