package proof

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// judge runs the trial and decides. base is nil when the model takes no made-up input, or there is none small enough.
func (t *trial) judge(ctx context.Context) (v Verdict, base *baseline, err error) {
	base, refused, err := t.alone(ctx)
	if err != nil {
		return Verdict{}, nil, err
	}
	budget := time.Duration(t.batching.MaxBatchCost)
	dear := base != nil && budget > 0 && base.cost > budget
	crashed := base == nil && refused != nil && crashes(refused)
	shows := ""
	switch {
	case base == nil && refused == nil:
		shows = "one made-up row exceeds the memory that a proof may take"
	case base == nil:
		shows = fmt.Sprintf("the model fails on made-up inputs even for one row: %v", refused.Err)
	case base.against != "":
		shows = base.against
	}
	switch {
	case t.decision.Against != "":
		return Verdict{Reason: t.decision.Against}, base, nil
	case t.graph.Mixes && t.batching.Tolerance == 0: // a tolerance that is stated is for rows that do meet a little
		return t.undecided("the graph lets rows meet at %s%s", t.graph.obstacle(), t.decision.hint()), base, nil
	case t.batching.Mode == modelrepo.BatchOn:
		v, err = t.trusted(ctx, base)
		return v, base, err
	case crashed: // a batch of requests that crash takes innocent ones along
		return t.unproven("%s", shows), base, nil
	case shows != "" && !t.graph.Proven:
		return t.undecided("%s", shows), base, nil
	case dear:
		v, err = t.rowByRow(ctx, base)
	case t.graph.Proven:
		v, err = t.byStructure(ctx, base, shows)
	default:
		v, err = t.byExamples(ctx, base)
	}
	return v, base, err
}

// trusted is the verdict where batching.mode is on.
func (t *trial) trusted(ctx context.Context, base *baseline) (Verdict, error) {
	v, err := t.grow(ctx, base, t.sizes(), nil)
	v.Batched, v.Most, v.Allowed, v.AnyValue = true, t.batching.Largest(), t.batching.AllowedBatchSizes, true
	v.Proof, v.Reason = catalog.ProofTrusted, "batching.mode is on: rows are joined without proof"
	if shared := t.decision.sharedOutput(); err == nil && shared != "" {
		err = fmt.Errorf("batching.mode is on, but output %q has no batch dimension, so that callers would get each "+
			"other's answers: "+
			"state it in batching.batch_dim.outputs if it has one, or use mode auto or off", shared)
	}
	return v, err
}

// byStructure is the verdict for a graph whose rows are independent for every value of every input. Examples warm the
// engine up and may still deny batching for differences that rounding cannot explain. shows is why they show nothing,
// "" if they show something.
func (t *trial) byStructure(ctx context.Context, base *baseline, shows string) (Verdict, error) {
	compare := t.compareRoughly
	if shows != "" {
		compare = nil
	}
	v, err := t.grow(ctx, base, t.sizes(), compare)
	if err != nil || v.wrong != "" {
		return v, err
	}
	saw := fmt.Sprintf("made-up ones answer alike alone and in batches (largest difference %.2g of the largest value)",
		v.Difference)
	if shows != "" {
		saw = "no batch was compared, because " + shows
	}
	v.Most, v.Allowed, v.AnyValue, v.Proof = t.batching.Largest(), t.batching.AllowedBatchSizes, true,
		catalog.ProofStructure
	v.Reason = "proven harmless by structure: the graph gives each row an answer that depends on that row only, " +
		"whatever the inputs are; " + saw
	return v, nil
}

// byExamples is the verdict for a graph that proves nothing.
func (t *trial) byExamples(ctx context.Context, base *baseline) (Verdict, error) {
	// of examples, which follow
	t.plan.rest = int64(t.kindRuns() + t.valueRuns(base, t.batching.Largest()) + t.extentRuns(base))
	v, err := t.grow(ctx, base, t.sizes(), t.compare)
	t.plan.rest = 0
	if err != nil || !v.Batched {
		return v, err
	}
	saw, err := t.examples(ctx, base, v.Most)
	switch {
	case err != nil:
		return v, err
	case saw.wrong != "":
		return t.unproven("%s", saw.wrong), nil
	case t.rounding.against() != "":
		return t.unproven("%s", t.rounding.against()), nil
	case base.telling == 0:
		return t.undecided("the model gives every made-up input the same answer, which shows nothing"), nil
	}
	v.Difference = max(v.Difference, saw.difference)
	v.Proof, v.Obstacle = catalog.ProofExamples, t.graph.obstacle()
	v.Reason = fmt.Sprintf("proven harmless by examples: rows answer alike alone and in batches of %s (largest "+
		"difference %.2g of the largest value)%s%s%s",
		v.tried, v.Difference, t.rounding.accepted(), saw.end, v.end)
	v.Rounds = t.rounding.most > 0
	return v, nil
}

// rowByRow is the verdict for a model if one row takes more than an execution may: requests of several rows are
// run row by row, if small batches show that rows do not influence each other, or the graph does; else as they come.
func (t *trial) rowByRow(ctx context.Context, base *baseline) (Verdict, error) {
	over := fmt.Sprintf("one row takes %v, more than batching.max_batch_cost (%v) allows for an execution",
		base.cost.Round(time.Microsecond), time.Duration(t.batching.MaxBatchCost))
	v := Verdict{Batched: true, Most: t.unit, dear: true, AnyValue: true, Proof: catalog.ProofStructure}
	if !t.graph.Proven {
		few, err := t.grow(ctx, base, t.fewRows(), t.compare)
		if err != nil {
			return few, err
		}
		if !few.Batched || few.tried == "" || t.rounding.against() != "" || base.telling == 0 {
			wrong := cmp.Or(few.wrong, t.rounding.wrong, "no small batch shows it")
			return Verdict{
				Reason: fmt.Sprintf("%s, and its rows are not run one by one, because they are not proven "+
					"independent: %s", over, wrong),
				Proof: catalog.ProofNone, Obstacle: t.graph.obstacle(),
			}, nil
		}
		v = Verdict{
			Batched: true, Most: t.unit, dear: true, Proof: catalog.ProofExamples, Obstacle: t.graph.obstacle(),
			Difference: few.Difference, Rounds: t.rounding.most > 0,
		}
	}
	if len(t.batching.AllowedBatchSizes) > 0 {
		v.Allowed = []int{t.unit}
	}
	v.Reason = over + ", so its rows are run one by one; they are proven independent by " + string(v.Proof)
	return v, nil
}

// unproven is the verdict for a model that needs the proof and fails it.
func (t *trial) unproven(format string, args ...any) Verdict {
	wrong := fmt.Sprintf(format, args...)
	return Verdict{
		Reason: "batching is not proven harmless: " + wrong, wrong: wrong, Proof: catalog.ProofNone,
		Obstacle: t.graph.obstacle(),
	}
}

// undecided is the verdict for a model that the proof shows nothing about, for lack of data that mean something to it.
func (t *trial) undecided(format string, args ...any) Verdict {
	v := t.unproven(format, args...)
	v.Reason += "; if you know that rows do not influence each other, batching.mode: on joins them"
	return v
}
