// Package proof decides whether the rows of different requests to a model may share executions.
//
// Decide finds out along which dimensions rows are joined, from the model and its manifest. Prove then makes a Runner
// run made-up rows, alone and in batches, and compares the results, unless the model's graph proves that its rows are
// independent. A Value is proven in the same way on rows of requests. Seen compares rows of live batches with their
// results alone. The package runs nothing by itself, starts no goroutine and takes no lock.
package proof

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// Subject is the version whose batching is to be decided.
type Subject struct {
	Model    string
	Version  int64
	Device   string
	Batching *modelrepo.Batching
	Log      *slog.Logger
	// Told hears how many runs there were, and how many there are to be as far as that is planned; it may be nil.
	Told func(done, of int64)
}

// Found is the result of a proof.
type Found struct {
	Verdict Verdict
	// Signature is the one that the version is to be published with, and Bare the same where no lengths are padded.
	Signature, Bare *tensor.Signature
	// Trims are the output dimensions that are to be cut back where inputs are padded.
	Trims []tensor.Trim
	Spent time.Duration // device time

	trial  *trial
	base   *baseline
	forgot bool // that its inputs have rows
}

// Prove finds out whether rows of different requests may share executions, and warms the version up on the way. The
// error is the Runner's, or names the setting of the manifest that the model cannot be run with.
func Prove(ctx context.Context, r Runner, s *Subject, d *Decision) (*Found, error) {
	t := newLoadTrial(r, s, d)
	t.graph = d.graph
	judged, base, err := t.judge(ctx)
	if err == nil && d.HasLengths() {
		judged, err = t.lengths(ctx, judged, base)
	}
	if err != nil {
		return nil, err
	}
	f := &Found{trial: t, base: base, forgot: !judged.Batched && d.Against == "" && !d.certain()}
	if f.forgot {
		d.forgetRows()
	}
	judged.Tolerance = s.Batching.Tolerance
	bare := *d
	d.declare(judged.Padded)
	d.explain(judged.Padded)
	f.Verdict, f.Signature, f.Bare, f.Spent = judged, d.Signature, d.Signature, t.spent
	if judged.Padded {
		f.Trims = d.trims
		bare.declare(false)
		bare.explain(false)
		f.Bare = bare.Signature
	}
	return f, nil
}

// WarmUp runs once more the requests that must be run by the plan that follows from the result, which the Runner
// follows now.
func (f *Found) WarmUp(ctx context.Context) error {
	if !f.forgot {
		return nil
	}
	err := f.trial.repeat(ctx, f.base)
	f.Spent = f.trial.spent
	return err
}

// repeat runs some of the baseline's rows alone once more. Costs are kept by shape: a version whose inputs turned out
// to have no rows has other shape keys than it had during its trial. base may be nil.
func (t *trial) repeat(ctx context.Context, base *baseline) error {
	if base == nil {
		return nil
	}
	t.unit = 1 // no row is known any more
	for k, set := range base.sets[:repeats] {
		_, _, err := t.single(ctx, set, k == 0)
		if _, is := errors.AsType[*catalog.ModelError](err); err != nil && !is {
			return err
		}
	}
	return nil
}
