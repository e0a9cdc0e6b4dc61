package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// findings are the results of examples of all kinds.
type findings struct {
	difference float64
	wrong      string // the evidence against joining rows; "" for none
	end        string // the examples that were not tried, and why
	less       bool   // a batch was smaller than asked for, or not compared
}

// examples runs rows of every kind alone and together with ordinary ones in small and large batches, then values for
// the inputs without rows, then the sizes that were not run yet: a question that structure cannot decide is to be tried
// in as many ways as there is time for. most is the largest batch that may be run. A row that the model refuses alone
// is not held against it.
func (t *trial) examples(ctx context.Context, base *baseline, most int) (f findings, err error) {
	if most < 2 {
		return f, nil
	}
	pool := &baseline{
		sets: slices.Clone(base.sets), outputs: slices.Clone(base.outputs), unit: base.unit,
		kinds: make([]int, len(base.sets)), bytes: base.bytes, cost: base.cost,
	}
	before := t.spent
	for _, step := range []func(context.Context, *baseline, *baseline, int) (findings, error){
		t.varyRows, t.varyValues,
		t.varyParameters, t.varyExtents,
	} {
		if f, err = f.and(step(ctx, base, pool, most)); err != nil || f.wrong != "" {
			return f, err
		}
	}
	return f.and(t.varySizes(ctx, pool, most, max(t.spent-before, sizesTime)))
}

// and adds the findings of a further step.
func (f findings) and(g findings, err error) (findings, error) {
	return findings{
		difference: max(f.difference, g.difference), wrong: cmp.Or(f.wrong, g.wrong),
		end: cmp.Or(f.end, g.end), less: f.less || g.less,
	}, err
}

// sizesTime is the device time that all sizes may take that only few rows were run in, at least; else as much as the
// runs before them took.
const sizesTime = 20 * time.Millisecond

// outOfTime says why a step ended early.
func outOfTime(what string) findings {
	return findings{end: "; the time that a proof may take did not suffice for " + what}
}

// varyRows tries the kinds of rows, and adds one of each to the pool.
func (t *trial) varyRows(ctx context.Context, base, pool *baseline, most int) (f findings, err error) {
	t.plan.next(t.kindRuns() + t.valueRuns(base, most) + t.extentRuns(base))
	for n := range kinds {
		k := &kinds[n]
		if t.grown && k.palette.least > 100 {
			continue
		}
		b := base.some(4)
		fresh, more, err := t.add(ctx, b, k.rows(base, t.decision.Signature, t.rng), n+1)
		if err != nil {
			return f, err
		}
		t.grown = t.grown || k.palette.least > 100 && more
		if fresh == 0 {
			continue
		}
		ordinary, all := len(b.sets)-fresh, len(b.sets)
		odd := []int{3, 5, 7}[n%3]
		batches := [][]int{
			t.mix(2, ordinary, ordinary, all),
			t.mix(2, 0, ordinary, all),
			t.mix(odd, 0, ordinary, all),
			t.mix(most, 0, ordinary, all),
			t.mix(most, ordinary, ordinary, all),
		}
		if f, err = f.and(t.batches(ctx, b, batches, most, k.name)); err != nil || f.wrong != "" {
			return f, err
		}
		if t.spent > trialTime {
			return f.and(outOfTime("every kind of number"), nil)
		}
		if len(pool.sets)*pool.bytes < trialBytes {
			pool.sets, pool.outputs, pool.kinds = append(pool.sets, b.sets[ordinary]),
				append(pool.outputs, b.outputs[ordinary]), append(pool.kinds, n+1)
		}
	}
	return f, nil
}

// some returns a baseline of the first rows, to which others may be added.
func (b *baseline) some(n int) *baseline {
	n = min(n, len(b.sets))
	kinds := make([]int, n)
	if b.kinds != nil {
		copy(kinds, b.kinds)
	}
	return &baseline{
		sets: slices.Clone(b.sets[:n]), outputs: slices.Clone(b.outputs[:n]), unit: b.unit, kinds: kinds,
		palette: b.palette, extent: b.extent, bytes: b.bytes, cost: b.cost,
	}
}

// add runs rows alone and adds the ones that the model takes. more reports whether the model did clearly more for them
// than for the others.
func (t *trial) add(ctx context.Context, b *baseline, sets [][]tensor.Tensor,
	kind int,
) (added int, more bool, err error) {
	for _, set := range sets {
		outputs, cost, err := t.single(ctx, set, true)
		if _, is := errors.AsType[*catalog.ModelError](err); is {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		if cost > 4*b.cost+time.Millisecond {
			// One run may have been held up; if the model does more work, it does so again.
			_, second, err := t.single(ctx, set, true)
			if _, is := errors.AsType[*catalog.ModelError](err); err != nil && !is {
				return 0, false, err
			}
			cost = min(cost, second)
		}
		size := BytesOf(set) + BytesOf(outputs)/t.unit
		more = more || size > 4*b.bytes || cost > 4*b.cost+time.Millisecond
		b.bytes = max(b.bytes, size)
		b.sets, b.outputs, b.kinds = append(b.sets, set), append(b.outputs, outputs), append(b.kinds, kind)
		added++
	}
	return added, more, nil
}

// mix returns so many rows of a baseline: in front and at the end those from special on, in turn, among those from
// least on.
func (t *trial) mix(size, least, special, all int) []int {
	rows := make([]int, size)
	for i := range rows {
		rows[i] = least + t.rng.IntN(all-least)
	}
	rows[0] = special
	if last := all - 1; size > 2 || least == special {
		rows[size-1] = last
	} else {
		rows[size-1] = least // next to an ordinary one
	}
	return rows
}

// batches runs batches of rows of b and compares them with the rows' results alone.
func (t *trial) batches(ctx context.Context, b *baseline, batches [][]int, most int,
	with string,
) (f findings, err error) {
	for _, rows := range batches {
		if len(rows) > most || len(rows)*b.bytes > trialBytes {
			rows, f.less = rows[:max(2, min(most, trialBytes/max(b.bytes, 1)))], true
		}
		rows = t.fill(rows)
		t.halved = false
		outputs, _, err := t.run(ctx, t.join(b, rows), len(rows), true)
		f.less = f.less || t.halved // for lack of memory: that batch was not tried as a whole
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			if engine.KindOf(failed) == engine.OutOfMemory {
				f.less = true // which says nothing of the rows
				continue
			}
			f.wrong = fmt.Sprintf("with %s, a batch of %d rows fails: %v", with, len(rows), failed.Err)
			return f, nil
		}
		if err != nil {
			return f, err
		}
		difference, wrong := t.compare(b, rows, outputs)
		f.difference = max(f.difference, difference)
		if wrong != "" {
			f.wrong = "with " + with + ", " + wrong
			return f, nil
		}
		if err := t.looksFurther(ctx, b, rows, outputs); err != nil {
			return f, err
		}
	}
	return f, nil
}

// fill brings rows to a size that executions may have, with copies of the last one as in service.
func (t *trial) fill(rows []int) []int {
	allowed := t.batching.AllowedBatchSizes
	if i, _ := slices.BinarySearch(allowed, len(rows)); i < len(allowed) {
		return append(slices.Clip(rows), slices.Repeat(rows[len(rows)-1:], allowed[i]-len(rows))...)
	}
	return rows
}

// varyParameters tries values for the inputs without rows, each with rows of several kinds.
func (t *trial) varyParameters(ctx context.Context, base, pool *baseline, most int) (f findings, err error) {
	large := map[int]int64{} // by input: from where on the model does clearly more
	all := t.assignments(pool)
	t.plan.next(len(all)*(parameterRows+parameterBatches) + t.extentRuns(base))
	for _, a := range all {
		if a.input >= 0 && large[a.input] > 0 && max(a.number, -a.number) > large[a.input] {
			continue
		}
		b, more, err := t.under(ctx, pool, a)
		if err != nil {
			return f, err
		}
		if more && a.input >= 0 {
			large[a.input] = max(1, a.number, -a.number)
		}
		rows := len(b.sets)
		if rows < 2 {
			continue
		}
		if f, err = f.and(t.batches(ctx, b,
			[][]int{t.mix(2, 0, 0, rows), t.mix(3, 0, rows/2, rows), t.mix(most, 0, 0, rows)}, most, a.name)); err != nil ||
			f.wrong != "" {
			return f, err
		}
		if t.spent > trialTime {
			return f.and(outOfTime("every value of the inputs without rows"), nil)
		}
	}
	return f, nil
}

// parameterRows is how many rows are tried with each value of an input without rows.
const parameterRows = 6

// under returns a baseline of rows of the pool, as far as the model takes them with these values.
func (t *trial) under(ctx context.Context, pool *baseline, a assignment) (b *baseline, more bool, err error) {
	b = &baseline{unit: pool.unit, bytes: pool.bytes, cost: pool.cost}
	step := (len(pool.sets) + parameterRows - 1) / parameterRows
	for n := 0; n < len(pool.sets) && len(b.sets) < parameterRows; n += step {
		set := slices.Clone(pool.sets[n])
		for i, value := range a.values {
			if value.DType != tensor.Invalid {
				set[i] = value
			}
		}
		added, grew, err := t.add(ctx, b, [][]tensor.Tensor{set}, pool.kinds[n])
		if err != nil {
			return b, more, err
		}
		more = more || grew
		if added == 0 && n >= 2*step && len(b.sets) == 0 {
			break // the value is refused, not the row
		}
	}
	return b, more, nil
}

// varyExtents tries other sizes of the open dimensions: how long a sequence is may matter to its mates. Small batches
// must do, since long rows may take much.
func (t *trial) varyExtents(ctx context.Context, base, _ *baseline, most int) (f findings, err error) {
	t.plan.next(t.extentRuns(base))
	for _, extent := range t.extents() {
		if !t.varies(base, extent) {
			continue
		}
		if t.spent > trialTime {
			return f.and(outOfTime("every length"), nil)
		}
		b := &baseline{unit: base.unit, cost: base.cost}
		if _, _, err := t.add(ctx, b, samples(t.decision.Signature, extentRows, extent, base.palette, t.rng),
			0); err != nil {
			return f, err
		}
		all := len(b.sets)
		if all < 2 {
			continue
		}
		batches := [][]int{t.mix(2, 0, 0, all), t.mix(3, 0, all/2, all)}
		if f, err = f.and(t.batches(ctx, b, batches, most, fmt.Sprintf("open dimensions of %d", extent))); err != nil ||
			f.wrong != "" {
			return f, err
		}
	}
	return f, nil
}

// varies reports whether another size of the open dimensions is tried than that of the baseline. Where lengths are
// declared none is: each bucket is proven by itself.
func (t *trial) varies(base *baseline, extent int64) bool {
	return extent != base.extent && hasExtent(t.decision.Signature) && len(t.decision.variables) == 0
}

// extentRows is how many rows are tried of each size of the open dimensions.
const extentRows = 3

// varySizes runs the sizes that were not run yet, ascending, for so long.
func (t *trial) varySizes(ctx context.Context, pool *baseline, most int, limit time.Duration) (f findings, err error) {
	if len(t.batching.AllowedBatchSizes) > 0 {
		return f, nil // all of them were run
	}
	var sizes []int
	for size := 3; size < most; size++ {
		if size&(size-1) != 0 {
			sizes = append(sizes, size)
		}
	}
	end := t.spent + limit
	t.plan.next(len(sizes))
	for _, size := range sizes {
		if t.spent > min(end, trialTime) || size*pool.bytes > trialBytes {
			return f, nil // sizes between the ones that were run are used anyway
		}
		if f, err = f.and(t.batches(ctx, pool, [][]int{t.mix(size, 0, t.rng.IntN(len(pool.sets)), len(pool.sets))},
			most, "rows of all kinds")); err != nil || f.wrong != "" {
			return f, err
		}
	}
	return f, nil
}
