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
	if !r.sit() { // its session must not be closed meanwhile
		return sharedsched.ErrRemoved
	}
	defer func() { r.tellUnclean(r.Device, r.vacate()) }()
	if limit := LimitOf(call, arrival); !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, limit, sharedsched.ErrExpired)
		defer cancel()
	}
	j := &execution.Job{Unit: r.unit, Inputs: call.Inputs, Rows: max(1, call.Rows), Wanted: call.Wanted}
	most := j.Rows
	if p := r.unit.Plan(); p.Batched && p.Most > 0 && p.Most < j.Rows {
		most = p.Most
	} else {
		j.Plan = r.unjoined()
	}
	start := time.Now()
	err := r.unit.Quarantine(ctx, j, most)
	call.Outcome.Compute += time.Since(start)
	call.Outcome.Executions++
	kind := engine.KindOf(err)
	switch {
	case err == nil:
		call.Results, err = j.Join()
		return err
	case kind == engine.Terminated && ctx.Err() != nil:
		return context.Cause(ctx)
	case kind == engine.Terminated, kind == engine.DeviceLost:
		return sharedsched.ErrRemoved // it says nothing about the call, which may run elsewhere
	}
	if kind == engine.AnswerTooLarge {
		return err
	}
	if kind != engine.Crashed {
		return &catalog.ModelError{Model: r.Model, Version: r.Number, Err: err}
	}
	r.shared.Log.Error("request crashes the model", "event", "request_crashed", "model", r.Model, "version", r.Number,
		"device", r.Device.Name, "cause", err)
	failed := r.crash(err)
	if r.killers.add(call.Inputs, err) {
		r.shared.Owner.Crashed(r.Version, fmt.Errorf("requests ended the engine's process %d times within %v, each by "+
			"itself; the latest: %w", maxKills, killTime, err))
	}
	return failed
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
