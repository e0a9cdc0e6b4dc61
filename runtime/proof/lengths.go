package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// lengths decides whether requests of different lengths may share executions, padded: padding can change an answer
// despite a mask. Like batching it is proven with made-up requests, each as it is, padded, and padded together with
// others, and with mode on only warmed up. judged is the verdict on batches of equal lengths. The error names buckets
// that the model cannot be run with.
func (t *trial) lengths(ctx context.Context, judged Verdict, base *baseline) (Verdict, error) {
	d := t.decision
	if base != nil {
		if err := t.checkBuckets(ctx, base); err != nil {
			return judged, err
		}
	}
	if !judged.Batched {
		return judged, nil
	}
	d.trims = d.namedTrims()
	trusted := t.batching.Mode == modelrepo.BatchOn
	if trusted {
		judged.Padded = true
		judged.Reason += ", and lengths padded to their buckets"
	}
	if base == nil {
		return judged, nil
	}
	d.declare(true)
	difference, buckets := 0.0, []string{}
	for step := range d.steps() {
		b, wrong, err := t.stretch(ctx, base, step)
		if err != nil {
			return judged, err
		}
		var v Verdict
		if wrong == "" {
			v, err = t.stretched(ctx, b)
			wrong = v.wrong
		}
		if err != nil {
			return judged, err
		}
		judged.RowMemory = max(judged.RowMemory, v.RowMemory) // of all lengths there is one figure
		switch {
		case wrong != "" && trusted:
			t.subject.Log.Warn("bucket failed in warm-up", "event", "bucket_failed",
				"model", t.subject.Model, "version", t.subject.Version, "bucket", d.bucket(step), "cause", wrong)
			continue
		case wrong != "":
			judged.Reason += "; only requests of equal length share an execution, because padding is not proven " +
				"harmless: " + wrong
			return judged, nil
		case !trusted && !v.dear:
			judged.shrink(v.Most)
		}
		difference = max(difference, v.Difference)
		buckets = append(buckets, b.bucket)
	}
	if !trusted {
		judged.Padded = true
		judged.Reason += fmt.Sprintf("; so is padding to %s (largest difference %.2g)", strings.Join(buckets, ", "),
			difference)
	}
	return judged, nil
}

// checkBuckets refuses buckets that the model cannot be run with though it takes other made-up inputs.
func (t *trial) checkBuckets(ctx context.Context, base *baseline) error {
	for step := range t.decision.steps() {
		if t.spent > trialTime || t.decision.tooLarge(base, step) {
			return nil
		}
		_, _, err := t.single(ctx, t.stretchedSample(base, step, 0), true)
		failed, is := errors.AsType[*catalog.ModelError](err)
		switch {
		case is && engine.KindOf(failed) != engine.OutOfMemory:
			return fmt.Errorf("model.yaml: batching.variable_dims: the model fails on made-up inputs as long as a "+
				"bucket (%s), though it takes such of length %d: %w; "+
				"remove that bucket, or add an entry for each input that shares the dimension", t.decision.bucket(step),
				base.extent, failed.Err)
		case err != nil && !is:
			return err
		}
	}
	return nil
}

// stretched compares the rows of a padded baseline in batches.
func (t *trial) stretched(ctx context.Context, b *baseline) (Verdict, error) {
	compare := t.compareStrictly
	if t.batching.Mode == modelrepo.BatchOn {
		compare = nil
	}
	if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && b.cost > budget {
		return Verdict{Batched: true, Most: 1, dear: true, Difference: b.difference}, nil
	}
	v, err := t.grow(ctx, b, t.sizes(), compare)
	v.Difference = max(v.Difference, b.difference)
	return v, err
}

// stretch makes a baseline of requests of different lengths that have the step's buckets, each run as it is and alone
// in its bucket. wrong is the evidence against padding.
func (t *trial) stretch(ctx context.Context, base *baseline, step int) (b *baseline, wrong string, err error) {
	d := t.decision
	b = &baseline{palette: base.palette, unit: t.unit, bucket: d.bucket(step)}
	if d.tooLarge(base, step) {
		return b, fmt.Sprintf("one row of %s exceeds the memory that a proof may take", b.bucket), nil
	}
	var traces []trace
	held := 0
	t.plan.next(2 * sampleRows)
	for k := range sampleRows {
		if t.spent > trialTime || held > trialBytes {
			break
		}
		inputs := t.stretchedSample(base, step, k)
		plain, _, err := t.single(ctx, inputs, true)
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			if engine.KindOf(failed) == engine.OutOfMemory {
				return nil, "the device's memory does not suffice for one row of " + b.bucket, nil
			}
			continue // a length that the model does not take is not made worse by padding
		}
		if err != nil {
			return nil, "", err
		}
		b.sets, b.outputs = append(b.sets, inputs), append(b.outputs, plain)
		joined := t.join(b, slices.Repeat([]int{len(b.sets) - 1}, t.unit))
		padded, cost, err := t.run(ctx, joined, t.unit, len(traces) == 0)
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			return nil, fmt.Sprintf("a request that ran alone fails padded to %s: %v", b.bucket, failed.Err), nil
		}
		if err != nil {
			return nil, "", err
		}
		if n := len(traces); n == 1 || n > 1 && cost < b.cost {
			b.cost = cost
		}
		size := (BytesOf(joined) + BytesOf(padded)) / t.unit
		b.bytes, held = max(b.bytes, size), held+2*size
		traces = append(traces, trace{inputs, plain, padded})
	}
	return b, t.judgeTraces(b, traces, step), nil
}

// judgeTraces compares the results of the rows of b as they are and alone in their bucket. It returns the evidence
// against padding.
func (t *trial) judgeTraces(b *baseline, traces []trace, step int) (wrong string) {
	d := t.decision
	if len(traces) == 0 {
		return "the time that a proof may take did not suffice"
	}
	for k := range d.variables {
		if v := &d.variables[k]; v.least(step) < v.at(step) && !slices.ContainsFunc(traces, v.shorter) {
			return fmt.Sprintf("the model takes no made-up input %q that is shorter than its bucket (%s), which shows "+
				"nothing", d.name(v), b.bucket)
		}
	}
	d.learnTrims(traces)
	if t.batching.Mode == modelrepo.BatchOn {
		return ""
	}
	for k := range traces {
		difference, wrong := t.compareStrictly(b, slices.Repeat([]int{k}, t.unit), traces[k].padded)
		if wrong != "" {
			return wrong
		}
		b.difference = max(b.difference, difference)
	}
	return ""
}

// BytesOf returns the bytes of tensors.
func BytesOf(tensors []tensor.Tensor) (n int) {
	for i := range tensors {
		n += len(tensors[i].Data)
	}
	return n
}
