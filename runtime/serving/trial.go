package serving

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// trial is the run in quarantine of a request that may have ended the engine's process. It goes on when its callers
// have left: their limits seldom leave the time to prove that it hangs, and some not the time to start a process. A
// request that is never proven would end the process each time that it is sent. Of equal inputs there is one trial at a
// time.
type trial struct {
	replica *Replica
	of      origin
	digest  [sha256.Size]byte
	job     *execution.Job
	most    int // rows of an execution
	stop    context.CancelCauseFunc

	ended   chan struct{} // closed with killers.mu held
	err     error         // how it ended; set before ended is closed
	callers int           // guarded by killers.mu; how many wait for it
}

// maxLeft is how many trials go on at once whose callers have left. Each holds a copy of its inputs.
const maxLeft = 64

// errLeft ends a trial for which nobody waits.
var errLeft = errors.New("nobody waits for the run any more")

// try begins a trial of a call. If one of the same inputs is under way it returns that; if they are known to have ended
// the process, how they did, and no trial. await must follow. Suspects are tried again.
func (r *Replica) try(call *catalog.Call) (t *trial, begun bool, cause error) {
	ctx, stop := context.WithCancelCause(context.Background())
	t = &trial{
		replica: r, of: r.origin(), digest: digest(call.Inputs), stop: stop, ended: make(chan struct{}), callers: 1,
	}
	k := &r.shared.killers
	k.mu.Lock()
	known := k.findLocked(t.of, t.digest)
	begun = known.trial == nil && known.killer == nil
	if begun {
		k.addLocked(t)
	}
	k.mu.Unlock()
	if !begun {
		stop(nil)
		return known.trial, false, known.killer
	}
	t.prepare(call)
	if !r.shared.Owner.Go(func(closing context.Context) {
		unwatch := context.AfterFunc(closing, func() { stop(context.Cause(closing)) })
		defer unwatch()
		t.run(ctx)
	}) {
		t.end(sharedsched.ErrClosed)
	}
	return t, true, nil
}

// prepare copies the call, which may end before the trial does.
func (t *trial) prepare(call *catalog.Call) {
	r := t.replica
	t.job = &execution.Job{Unit: r.unit, Rows: max(1, call.Rows), Wanted: slices.Clone(call.Wanted)}
	for _, in := range call.Inputs {
		t.job.Inputs = append(t.job.Inputs, in.Clone())
	}
	t.most = t.job.Rows
	if p := r.unit.Plan(); !call.Alone() && p.Batched && p.Most > 0 && p.Most < t.job.Rows {
		t.most = p.Most
	} else {
		t.job.Plan = r.unjoined()
	}
}

// run runs the request, and remembers one that ends the process once more: it is the cause.
func (t *trial) run(ctx context.Context) {
	r := t.replica
	_, err := r.quarantine(ctx, t.job, t.most)
	if errors.Is(err, catalog.ErrUntried) {
		r.shared.Log.Warn("request cannot be tried by itself", "event", "request_untried", "model", r.Model,
			"version", r.Number, "device", r.Device.Name, "cause", err)
	}
	if failed, is := errors.AsType[*catalog.ModelError](err); is && failed.Crashed {
		r.shared.Log.Error("request crashes the model", "event", "request_crashed", "model", r.Model,
			"version", r.Number, "device", r.Device.Name, "cause", failed.Err)
		if r.kill(t.digest, failed.Err) {
			r.shared.Owner.Crashed(r.Version, fmt.Errorf("requests ended the engine's process %d times within %v, "+
				"each by itself; the latest: %w", maxKills, killTime, failed.Err))
		}
	}
	t.end(err)
}

// end tells those who wait how the trial ended.
func (t *trial) end(err error) {
	t.stop(nil)
	k := &t.replica.shared.killers
	k.mu.Lock()
	defer k.mu.Unlock()
	t.err = err
	k.removeLocked(t)
	close(t.ended)
}

// await waits for the end of the trial. The errors wrap those of Shared.Await.
func (t *trial) await(ctx context.Context, limit time.Time) error {
	r, shared := t.replica, t.replica.shared
	err := shared.Await(ctx, t.ended, limit)
	if err != nil {
		err = fmt.Errorf("model %q version %d: the request is run by itself, because a run of it, or of others in its "+
			"batch, hung or ended the engine's process: %w", r.Model, r.Number, err)
	}
	k := &shared.killers
	k.mu.Lock()
	defer k.mu.Unlock()
	t.callers--
	if t.callers > 0 || k.trials[t.of][t.digest] != t {
		return err
	}
	k.left++
	if shared.RunTimeout == 0 || k.left > maxLeft || r.gone.Load() {
		t.stop(errLeft) // without a timeout the run of a request that hangs would never end
	}
	return err
}

// awaitVerdict waits for the trial of a call's inputs that is under way, if there is one, and reports whether they are
// suspect. The error is that of inputs that are known to end the process, or wraps one of Shared.Await.
func (r *Replica) awaitVerdict(ctx context.Context, call *catalog.Call, arrival time.Time) (suspect bool, err error) {
	for {
		f := r.find(call.Inputs)
		switch {
		case f.killer != nil:
			return false, r.crash(f.killer)
		case f.trial == nil:
			return f.suspect != nil, nil
		}
		if err := f.trial.await(ctx, LimitOf(call, arrival)); err != nil {
			return false, err
		}
	}
}

// endTrials ends those of a replica that was released for which nobody waits: they keep its session open.
func (r *Replica) endTrials() {
	k := &r.shared.killers
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.trials[r.origin()] {
		if t.replica == r && t.callers == 0 {
			t.stop(errLeft)
		}
	}
}
