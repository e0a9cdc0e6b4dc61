package proof

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// mostInteger returns the largest integer that is tried in an input: how much a model does may depend on it, as far as
// the millions that were tried before did not show that.
func (t *trial) mostInteger(ctx context.Context, base *baseline, input int) (int64, error) {
	const large, usual = 1 << 24, 1 << 20
	switch {
	case t.grown:
		return 100, nil
	case t.decision.Signature.Inputs[input].DType.Size() < 4:
		return math.MaxInt64, nil
	}
	least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	for range 2 {
		for n, v := range []int64{1, large} {
			row := special{value: integer(v), has: func(int) bool { return true }}
			_, cost, err := t.single(ctx, row.make(t, base.sets[0], []int{input}), true)
			if _, is := errors.AsType[*catalog.ModelError](err); is {
				return usual, nil
			}
			if err != nil {
				return 0, err
			}
			least[n] = min(least[n], cost)
		}
	}
	if least[1] > least[0]+least[0]/4+500*time.Microsecond {
		return usual, nil
	}
	return math.MaxInt64, nil
}

// spreadRuns is how many runs are made with the values of one input, about. Where batches are small, that is not all of
// them.
const spreadRuns = 64

// spreadRefusals is how many runs of rows with the values of one input may fail: a model may refuse values.
const spreadRefusals = 16

// varyValues tries rows with special values: for as long as half of the trials before took.
func (t *trial) varyValues(ctx context.Context, base, _ *baseline, most int) (f findings, err error) {
	largest := map[int]int64{}
	for i := range t.decision.Signature.Inputs {
		if in := &t.decision.Signature.Inputs[i]; in.BatchDim != tensor.NoBatch && isInteger(in.DType) {
			if largest[i], err = t.mostInteger(ctx, base, i); err != nil {
				return f, err
			}
		}
	}
	size := spreadSize(base, most)
	all := t.spreads(base, size, func(input int) int64 { return largest[input] })
	t.plan.next(spreadsRuns(all, size) + t.extentRuns(base))
	share := max(t.spent/2, sizesTime) / time.Duration(max(1, len(all)))
	for i := range all {
		end, refusals := t.spent+share, 0
		for n := 0; n < len(all[i].rows); n += 2 * size {
			if t.spent > trialTime {
				return f.and(outOfTime("all special values"), nil)
			}
			if t.spent > end || n*base.bytes > trialBytes || refusals > spreadRefusals {
				break
			}
			rows := all[i].rows[n:min(n+2*size, len(all[i].rows))]
			if f, err = f.and(t.spread(ctx, base, &all[i], rows, size, &refusals)); err != nil || f.wrong != "" {
				return f, err
			}
		}
	}
	return f, nil
}

// spread runs rows in batches of a size, and then the rows in even places together, and the rows in odd ones: no two
// neighbours are mates again.
func (t *trial) spread(ctx context.Context, base *baseline, of *spread, rows []special, size int,
	refusals *int,
) (f findings, err error) {
	b := &baseline{unit: 1, bytes: base.bytes, cost: base.cost, mates: true}
	for first := range slices.Chunk(rows, size) {
		next := &baseline{}
		for n := range first {
			next.sets = append(next.sets, first[n].make(t, base.sets[n%len(base.sets)], of.inputs))
			next.kinds = append(next.kinds, first[n].size)
		}
		if f, err = f.and(t.together(ctx, b, next, of.with, refusals)); err != nil || f.wrong != "" {
			return f, err
		}
	}
	if len(b.sets) < 2 {
		return f, nil
	}
	var batches [][]int
	for odd := range 2 {
		var batch []int
		for n := odd; n < len(b.sets); n += 2 {
			batch = append(batch, n)
		}
		batches = append(batches, batch)
	}
	return f.and(t.batches(ctx, b, batches, size, of.with))
}

// together runs the sets of next in one batch, and adds the ones that the model takes to b with their answers there. It
// looks for the ones that the model refuses, by halves.
func (t *trial) together(ctx context.Context, b, next *baseline, with string, refusals *int) (f findings, err error) {
	rows := make([]int, len(next.sets))
	for n := range rows {
		rows[n] = n
	}
	rows = t.fill(rows)
	outputs, _, err := t.run(ctx, t.join(next, rows), len(rows), true)
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		return t.halves(ctx, b, next, failed, with, refusals)
	}
	if err != nil {
		return f, err
	}
	for n := range next.sets {
		answer := make([]tensor.Tensor, len(outputs))
		for o, out := range outputs {
			dim := t.decision.Signature.Outputs[o].BatchDim
			if !out.Shape.HasRows(dim, len(rows)) {
				f.wrong = fmt.Sprintf("with %s, output %q has the shape %v for %d rows, expected them in dimension %d", with,
					t.decision.Signature.Outputs[o].Name, out.Shape, len(rows), dim)
				return f, nil
			}
			answer[o] = out.Row(dim, n)
		}
		b.outputs = append(b.outputs, answer)
	}
	b.sets, b.kinds = append(b.sets, next.sets...), append(b.kinds, next.kinds...)
	return f, nil
}

// halves goes on after a batch has failed.
func (t *trial) halves(ctx context.Context, b, next *baseline, failed *catalog.ModelError, with string,
	refusals *int,
) (f findings, err error) {
	*refusals++
	switch {
	case engine.KindOf(failed) == engine.OutOfMemory:
		f.less = true
		return f, nil
	case crashes(failed):
		f.wrong = fmt.Sprintf("with %s, a batch of %d rows fails: %v", with, len(next.sets), failed.Err)
		return f, nil
	case len(next.sets) == 1, *refusals > spreadRefusals:
		return f, nil
	}
	half := len(next.sets) / 2
	for _, part := range []*baseline{
		{sets: next.sets[:half], kinds: next.kinds[:half]}, {sets: next.sets[half:], kinds: next.kinds[half:]},
	} {
		if f, err = f.and(t.together(ctx, b, part, with, refusals)); err != nil || f.wrong != "" {
			return f, err
		}
	}
	return f, nil
}
