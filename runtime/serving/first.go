package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
)

// firstRow is the outcome of the first row that was made up for a version on a device. It runs in a process where
// nothing else does, because it is the one that crashes or hangs if any does. The zero value is that of an engine
// without such processes, and of a model that failed on all made-up rows.
type firstRow struct {
	// took is the time until it was answered: the first guess of what rows cost.
	took time.Duration
	// crashed is how it ended the process; nil: it did not. No other row is made up then. The row may be at fault, and
	// not the model, so that this is served without a proof.
	crashed error
}

// notes returns remarks about the first row for readers of the metadata.
func (f *firstRow) notes() []string {
	if f.crashed == nil {
		return nil
	}
	return []string{fmt.Sprintf("it was loaded without a trial of made-up rows, because the first one crashed: %v",
		errors.Unwrap(f.crashed))}
}

// tryFirst runs the first synthetic row in a session that was opened for trial. It runs outside of the scheduler: it is
// a single row for each load, in a process without other models. A crash is a result and not an error, because the
// version is served nevertheless, without a proof. The error is the cause of ctx.
func (s *Shared) tryFirst(ctx context.Context, c residency.Candidate, device string,
	o engine.Opened,
) (f firstRow, err error) {
	d, err := proof.Decide(o.Session.Signature().Clone(), &c.Manifest.Batching)
	if err != nil {
		return f, nil // admit says so
	}
	o.Quarantine = o.Session // nothing else runs there
	loaded := execution.Load(o)
	defer func() { _ = loaded.Close() }()
	t := &firstRunner{longest: s.RunTimeout}
	t.unit = &execution.Unit{
		Model: c.Model, Version: c.Version.Number, Loaded: loaded, Owner: t, Log: s.Log, MaxAnswer: s.MaxAnswer,
	}
	t.unit.Follow(execution.NewPlan(d.Signature, 0))
	of := &proof.Subject{
		Model: c.Model, Version: c.Version.Number, Device: device, Batching: &c.Manifest.Batching, Log: s.Log,
	}
	f.took, err = proof.First(ctx, t, of, d)
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		f.crashed = failed
		s.Log.Warn("made-up row crashes the model", "event", "made_up_row_crashed", "model", c.Model,
			"version", c.Version.Number, "device", device, "cause", failed.Err,
			"effect", "it is served without a proof of batching and without a known cost")
		return f, nil
	}
	return f, err
}

// firstRunner runs synthetic rows in the quarantine of a unit. It implements proof.Runner, and execution.Owner with
// nothing to report: no caller waits for the model yet.
type firstRunner struct {
	unit    *execution.Unit
	longest time.Duration // that a run may take; 0: any time
}

// Run implements proof.Runner. Any failure that is not an interruption is the model's.
func (t *firstRunner) Run(ctx context.Context, r proof.Request) (a proof.Answer, err error) {
	j := &execution.Job{Unit: t.unit, Inputs: r.Inputs, Rows: r.Rows}
	a.Cost, err = t.unit.Quarantine(ctx, j, j.Rows)
	switch {
	case err == nil:
		a.Outputs, err = j.Join()
		return a, err
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	}
	return a, &catalog.ModelError{Model: t.unit.Model, Version: t.unit.Version, Err: err}
}

// Memory implements proof.Runner with nothing known: one row shows no growth.
func (*firstRunner) Memory() engine.Memory { return engine.Memory{} }

// Lost implements execution.Owner. A device that is lost is noticed when the model is opened for good.
func (*firstRunner) Lost() bool { return false }

// Found does nothing.
func (*firstRunner) Found(execution.Finding) {}

// Hangs does nothing: nobody waits for the model yet.
func (*firstRunner) Hangs(int) {}

// Patience implements execution.Owner with the run timeout: nothing is known of the model yet.
func (t *firstRunner) Patience(int) (usual, most time.Duration) { return t.longest, t.longest }
