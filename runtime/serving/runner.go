package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// runner runs the made-up requests of a proof on a replica, through the scheduler, together with live traffic. It is a
// proof.Runner.
type runner struct {
	replica  *Replica
	unjoined *execution.Plan // of requests as they came
	// crashed is how a made-up row was proven to end the engine's process: no other is run, because it could do so, too.
	crashed error
	// proves: it is that of a load, and quick while no run of it took long; see quickRun.
	proves, quick bool
}

// Proofs is the identity that runs of proofs and of warm-up are charged to: all those on a device have one share of it
// together. In the flow of the version each of the hundreds of runs would wait for the turn of all its callers, where
// larger batches may be what these wait for.
const Proofs = "weft:proofs"

// quickRun is the longest that a run takes of a proof that is to end soon. Such proofs go first: each run of theirs
// would wait for one of a slow proof otherwise, which begins whenever the device is free. A slow one waits for them for
// at most courtesy before each run.
const quickRun, courtesy = 20 * time.Millisecond, time.Second

// provingRunner returns the runner for the proof of a load, which counts as quick until a run takes long. Call end
// after the proof.
func provingRunner(r *Replica) (t *runner, end func()) {
	t = newRunner(r)
	t.proves, t.quick = true, true
	r.shared.quick.Add(1)
	return t, func() {
		if t.quick {
			r.shared.quick.Add(-1)
		}
	}
}

// giveWay has a slow proof wait while quick proofs are under way, for courtesy at most. It polls each millisecond: that
// is simpler than waking, and costs nothing beside a run.
func (t *runner) giveWay(ctx context.Context) error {
	for end := time.Now().Add(courtesy); t.proves && !t.quick && t.replica.shared.quick.Load() > 0 &&
		time.Now().Before(end); {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// newRunner returns a runner that knows from the first row whether the model crashes.
func newRunner(r *Replica) *runner {
	return &runner{replica: r, unjoined: r.unjoined(), crashed: r.first.crashed}
}

// trialPatience is how long a synthetic request waits for the device. Under constant load a proof ends late rather than
// fails.
const trialPatience = 24 * time.Hour

// Run implements proof.Runner: it runs the request by itself, and waits for its turn. After a crash it runs nothing
// more, and returns the error of the crash.
func (t *runner) Run(ctx context.Context, r proof.Request) (a proof.Answer, err error) {
	// The same crash would end the process once more, and with it the runs of others there.
	if t.crashed != nil {
		return a, t.crashed
	}
	if err := t.giveWay(ctx); err != nil {
		return a, err
	}
	j := &execution.Job{Unit: t.replica.unit, Inputs: r.Inputs, Rows: r.Rows, PerRow: true}
	if r.AsItCame {
		j.Plan = t.unjoined
	}
	// The model's own limit is for callers: nobody waits for this.
	j.Task = sharedsched.Task{Alone: true, Unmeasured: r.Unmeasured, Limit: time.Now().Add(trialPatience)}
	a, err = t.run(ctx, j)
	if t.quick && a.Cost > quickRun {
		t.quick = false
		t.replica.shared.quick.Add(-1)
	}
	return a, err
}

// run runs a job under the identity of proofs, and returns its cost and its outputs.
func (t *runner) run(ctx context.Context, j *execution.Job) (a proof.Answer, err error) {
	j.Task.Identity = Proofs
	outcome, err := t.replica.runRow(ctx, j)
	a.Cost = cmp.Or(outcome.DeviceTime, outcome.Compute)
	// It is remembered, so that no further row of this proof is run.
	if failed, is := errors.AsType[*catalog.ModelError](err); is && failed.Crashed {
		t.crashed = err
	}
	if err != nil {
		return a, t.fault(err)
	}
	a.Halved = j.Split()
	a.Outputs, err = j.Join()
	return a, err
}

// fault returns the error of a row as the proof takes it: an answer that is too large is the model's failure, and a row
// that is larger than all that may ever wait counts as out of memory, so that the proof goes on with fewer rows.
func (t *runner) fault(err error) error {
	if _, is := errors.AsType[*tensor.TooLargeError](err); is {
		return &catalog.ModelError{Model: t.replica.Model, Version: t.replica.Number, Err: err}
	}
	if r, is := errors.AsType[*sharedsched.Refusal](err); is && r.Reason == sharedsched.RefusedQueueFull {
		full := &engine.Error{Kind: engine.OutOfMemory, Err: r}
		return &catalog.ModelError{Model: t.replica.Model, Version: t.replica.Number, Err: full}
	}
	return err
}

// Memory returns the replica's part of its device's memory.
func (t *runner) Memory() engine.Memory { return t.replica.unit.Meter.Read().Memory }

// pause waits. It returns early, with the cause, when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("warm-up was interrupted: %w", context.Cause(ctx))
	}
}
