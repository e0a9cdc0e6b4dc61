package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// verdict is how a version will be served, and why.
type verdict struct {
	batched bool
	reason  string
	// wrong is what speaks against batching, if that was tried; it is part of the reason.
	wrong string
	// padded: requests of different lengths share executions.
	padded bool
	// difference is the largest deviation that the proof saw, relative to the largest magnitude.
	difference float64
	// most is the most rows that one execution may have, and allowed the sizes that it may have (empty: any).
	most    int
	allowed []int
	// rowMemory is the device memory, in bytes, that a further row of an execution takes; 0: not known.
	rowMemory int64
	// dear: larger batches were not tried because they would exceed the budget of an execution.
	dear bool
}

// judge runs the trial and decides. base is nil when the model takes no made-up input.
func (t *trial) judge(ctx context.Context) (v verdict, base *baseline, err error) {
	base, refused, err := t.alone(ctx)
	if err != nil {
		return verdict{}, nil, err
	}
	budget := time.Duration(t.batching.MaxBatchCost)
	trusted := t.batching.Mode == modelrepo.BatchOn
	switch {
	case t.decision.against != "":
		return verdict{reason: t.decision.against}, base, nil
	case trusted:
		v, err = t.grow(ctx, base, nil)
		v.batched, v.most, v.allowed = true, t.batching.MaxBatchSize, t.batching.AllowedBatchSizes
		v.reason = "batching.mode is on: rows are joined without proof"
		if shared := t.decision.sharedOutput(); err == nil && shared != "" {
			err = fmt.Errorf("batching.mode is on, but output %q has no batch dimension, so that callers would get each other's answers: "+
				"state it in batching.batch_dim.outputs if it has one, or use mode auto or off", shared)
		}
		return v, base, err
	case base == nil:
		return undecided("the model fails on made-up inputs even for one row: %v", refused.Err), nil, nil
	case base.against != "":
		return undecided("%s", base.against), base, nil
	case budget > 0 && base.cost > budget:
		v.reason = fmt.Sprintf("one row takes %v, more than batching.max_batch_cost (%v) allows for an execution",
			base.cost.Round(time.Microsecond), budget)
		return v, base, nil
	}
	v, err = t.grow(ctx, base, t.compare)
	if v.batched && base.telling == 0 {
		v = undecided("the model gives every made-up input the same answer, which shows nothing")
	}
	return v, base, err
}

// unproven is the verdict for a model that needs the proof and fails it.
func unproven(format string, args ...any) verdict {
	wrong := fmt.Sprintf(format, args...)
	return verdict{reason: "batching is not proven harmless: " + wrong, wrong: wrong}
}

// undecided is the verdict for a model of which the proof shows nothing, for want of data that mean something to it.
func undecided(format string, args ...any) verdict {
	v := unproven(format, args...)
	v.reason += "; if you know that rows do not influence each other, batching.mode: on joins them"
	return v
}

// comparison returns how far the outputs of a batch of the baseline's rows are from those of the rows alone, or what is wrong.
type comparison func(b *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string)

// grow runs batches of growing size, up to the one that exceeds the budget of an execution. With a comparison the verdict is
// whether rows in them answer as they do alone; without one the runs only warm up, and a failure ends them.
func (t *trial) grow(ctx context.Context, base *baseline, compare comparison) (verdict, error) {
	v := verdict{batched: true, most: 1}
	if base == nil {
		return v, nil
	}
	var sizes []string
	smaller, end := 0, "" // why larger sizes are not run
	var growth memoryGrowth
	growth.saw(t.replica.opened.Session, 1)
	for _, size := range t.sizes() {
		if t.spent > trialTime || size*base.bytes > trialBytes {
			end = fmt.Sprintf("; %d rows would exceed the memory or the time that a proof may take", size)
			break
		}
		seen, err := t.size(ctx, base, smaller, size, compare)
		if err != nil {
			return v, err
		}
		if seen.wrong != "" && compare != nil {
			return unproven("%s", seen.wrong), nil
		}
		if seen.wrong != "" || seen.memory {
			// Trusted sizes stay allowed: of one that ran out of memory the scheduler knows, as of any later batch that does, and tries it
			// again. What is not proven is not used, and nothing is proven any more once requests come.
			then := "batches of so many rows are formed all the same, because batching.mode is on"
			end = fmt.Sprintf("; the device's memory does not suffice for %d rows", size)
			if compare != nil {
				then = fmt.Sprintf("no batch has more than %d rows; to have more proven, unload the version and load it again when memory is free", v.most)
				end += " (larger ones are tried when the version is loaded again)"
			}
			t.host.log.Warn("a batch size failed in warm-up", "model", t.replica.model, "version", t.replica.number, "device", t.replica.device.name,
				"rows", size, "cause", cmp.Or(seen.wrong, "out of memory"), "then", then)
			break
		}
		v.difference = max(v.difference, seen.difference)
		v.most, smaller = size, size
		if size > 1 {
			growth.saw(t.replica.opened.Session, size)
			v.rowMemory = growth.perRow
		}
		sizes = append(sizes, strconv.Itoa(size))
		if len(t.batching.AllowedBatchSizes) > 0 {
			v.allowed = append(v.allowed, size)
		}
		if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && seen.cost > budget {
			end, v.dear = fmt.Sprintf("; more rows would exceed batching.max_batch_cost (%v)", budget), true
			break
		}
	}
	if len(sizes) == 0 {
		return unproven("no batch could be tried%s", end), nil
	}
	v.reason = fmt.Sprintf("proven harmless: rows answer alike alone and in batches of %s (largest difference %.2g of the largest value)%s",
		strings.Join(sizes, ", "), v.difference, end)
	return v, nil
}

// sizes returns the sizes to run: the allowed ones, else powers of two and the largest.
func (t *trial) sizes() []int {
	if allowed := t.batching.AllowedBatchSizes; len(allowed) > 0 {
		return allowed
	}
	var sizes []int
	most := t.batching.MaxBatchSize
	for size := 2; size < most; size *= 2 {
		sizes = append(sizes, size)
	}
	return append(sizes, most)
}

// sighting is what the runs of one batch size showed.
type sighting struct {
	cost       time.Duration // the least device time
	difference float64
	wrong      string // what speaks against joining rows; "" for nothing
	memory     bool   // the device's memory does not suffice for this size
}

// size runs batches of one size: full ones, with other mates and places for each row every time, and where sizes are padded up
// to this one, one with as much padding as there can be. smaller is the next smaller size.
func (t *trial) size(ctx context.Context, base *baseline, smaller, size int, compare comparison) (seen sighting, err error) {
	runs := repeats
	if len(t.batching.AllowedBatchSizes) > 0 && size > smaller+1 {
		runs++
	}
	for k := range runs {
		different := size // rows; the rest is padding
		if k == repeats {
			different = smaller + 1
		}
		rows := make([]int, size)
		order := t.rng.Perm(len(base.sets))
		for i := range rows {
			rows[i] = order[min(i, different-1)%len(order)]
		}
		outputs, cost, err := t.run(ctx, t.join(base, rows), size, k == 0)
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			if outOfMemory(failed) {
				return sighting{memory: true}, nil
			}
			return sighting{wrong: fmt.Sprintf("a batch of %d rows fails: %v", size, failed.Err)}, nil
		}
		if err != nil {
			return sighting{}, err
		}
		if k == 1 || k > 1 && cost < seen.cost {
			seen.cost = cost
		}
		if size > 1 && smaller <= 1 && k == 0 && base.bucket == "" {
			t.decision.observe(base.outputs[0], outputs, size)
		}
		if compare == nil {
			continue
		}
		difference, wrong := compare(base, rows, outputs)
		if wrong != "" {
			return sighting{wrong: wrong}, nil
		}
		seen.difference = max(seen.difference, difference)
	}
	return seen, nil
}

// compare is the comparison of the proof.
func (t *trial) compare(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	for o := range outputs {
		spec, out := &t.decision.signature.Outputs[o], outputs[o]
		dim := spec.BatchDim
		if dim != tensor.NoBatch && (dim >= len(out.Shape) || out.Shape[dim] != int64(len(rows))) {
			return 0, fmt.Sprintf("output %q has the shape %v for %d rows, expected them in dimension %d", spec.Name, out.Shape, len(rows), dim)
		}
		for at, row := range rows {
			got := share(t.decision.signature, t.decision.trims, o, dim, tensor.RowRange{Tensor: out, First: at, Rows: 1}, base.sets[row])
			far, err := deviation(got, base.outputs[row][o], base.scale[o])
			switch {
			case err != nil:
				return 0, fmt.Sprintf("output %q of a row %s %v", spec.Name, base.beside(len(rows)), err)
			case math.IsInf(far, 1):
				return 0, fmt.Sprintf("output %q of a row has another value %s than alone", spec.Name, base.beside(len(rows)))
			case far > tolerance(spec.DType):
				return 0, fmt.Sprintf("output %q of a row differs by %.2g of the largest value %s (tolerated: %.2g)",
					spec.Name, far, base.beside(len(rows)), tolerance(spec.DType))
			}
			difference = max(difference, far)
		}
	}
	return difference, ""
}
