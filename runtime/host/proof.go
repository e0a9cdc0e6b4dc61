package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// verdict is how a version will be served, and why.
type verdict struct {
	batched bool
	reason  string
	// proof is what batching rests on, and obstacle what stood in the way of a proof by structure, "" where none was asked for.
	proof    catalog.Proof
	obstacle string
	// wrong is what speaks against batching, if that was tried; it is part of the reason.
	wrong string
	// padded: requests of different lengths share executions.
	padded bool
	// difference is the largest deviation that the proof saw, relative to the largest magnitude.
	difference float64
	// most is the most rows that one execution may have, and allowed the sizes that it may have (empty: any).
	most    int
	allowed []int
	// tried are the sizes that were run, for messages, and end why larger ones were not.
	tried, end string
	// rowMemory is the device memory, in bytes, that a further row of an execution takes; 0: not known.
	rowMemory int64
	// dear: larger batches were not tried because they would exceed the budget of an execution.
	dear bool
	// tolerance is what the manifest states, 0 for nothing.
	tolerance float64
	// anyValue: rows may share executions whatever the inputs without rows say. Else each value is proven before it is joined.
	anyValue bool
}

// judge runs the trial and decides. base is nil when the model takes no made-up input.
func (t *trial) judge(ctx context.Context) (v verdict, base *baseline, err error) {
	base, refused, err := t.alone(ctx)
	if err != nil {
		return verdict{}, nil, err
	}
	budget := time.Duration(t.batching.MaxBatchCost)
	dear := base != nil && budget > 0 && base.cost > budget
	shows := ""
	switch {
	case base == nil:
		shows = fmt.Sprintf("the model fails on made-up inputs even for one row: %v", refused.Err)
	case base.against != "":
		shows = base.against
	}
	switch {
	case t.decision.against != "":
		return verdict{reason: t.decision.against}, base, nil
	case t.graph.Mixes && t.batching.Tolerance == 0: // a tolerance that is stated is for rows that do meet a little
		return t.undecided("the graph lets rows meet at %s", t.graph.obstacle()), base, nil
	case t.batching.Mode == modelrepo.BatchOn:
		v, err = t.trusted(ctx, base)
		return v, base, err
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
func (t *trial) trusted(ctx context.Context, base *baseline) (verdict, error) {
	v, err := t.grow(ctx, base, t.sizes(), nil)
	v.batched, v.most, v.allowed, v.anyValue = true, t.batching.MaxBatchSize, t.batching.AllowedBatchSizes, true
	v.proof, v.reason = catalog.ProofTrusted, "batching.mode is on: rows are joined without proof"
	if shared := t.decision.sharedOutput(); err == nil && shared != "" {
		err = fmt.Errorf("batching.mode is on, but output %q has no batch dimension, so that callers would get each other's answers: "+
			"state it in batching.batch_dim.outputs if it has one, or use mode auto or off", shared)
	}
	return v, err
}

// byStructure is the verdict for a graph whose rows are independent for every value of every input. Examples warm the engine up and
// may still deny batching for what rounding cannot explain. shows is why they show nothing, "" if they show something.
func (t *trial) byStructure(ctx context.Context, base *baseline, shows string) (verdict, error) {
	compare := t.compareRoughly
	if shows != "" {
		compare = nil
	}
	v, err := t.grow(ctx, base, t.sizes(), compare)
	if err != nil || v.wrong != "" {
		return v, err
	}
	saw := fmt.Sprintf("made-up ones answer alike alone and in batches (largest difference %.2g of the largest value)", v.difference)
	if shows != "" {
		saw = "no batch was compared, because " + shows
	}
	v.most, v.allowed, v.anyValue, v.proof = t.batching.MaxBatchSize, t.batching.AllowedBatchSizes, true, catalog.ProofStructure
	v.reason = "proven harmless by structure: the graph gives each row an answer that depends on that row only, whatever the inputs are; " + saw
	return v, nil
}

// byExamples is the verdict for a graph that proves nothing.
func (t *trial) byExamples(ctx context.Context, base *baseline) (verdict, error) {
	v, err := t.grow(ctx, base, t.sizes(), t.compare)
	if err != nil || !v.batched {
		return v, err
	}
	saw, err := t.examples(ctx, base, v.most)
	switch {
	case err != nil:
		return v, err
	case saw.wrong != "":
		return t.unproven("%s", saw.wrong), nil
	case t.rounding.most > 0:
		return t.unproven("%s", t.rounding.advice()), nil
	case base.telling == 0:
		return t.undecided("the model gives every made-up input the same answer, which shows nothing"), nil
	}
	v.difference = max(v.difference, saw.difference)
	v.proof, v.obstacle = catalog.ProofExamples, t.graph.obstacle()
	v.reason = fmt.Sprintf("proven harmless by examples: rows answer alike alone and in batches of %s (largest difference %.2g of the largest value)%s%s",
		v.tried, v.difference, saw.end, v.end)
	return v, nil
}

// rowByRow is the verdict for a model of which one row takes more than an execution may: requests of several rows are run row by row, if
// small batches show that rows do not influence each other, or the graph does; else as they come.
func (t *trial) rowByRow(ctx context.Context, base *baseline) (verdict, error) {
	over := fmt.Sprintf("one row takes %v, more than batching.max_batch_cost (%v) allows for an execution",
		base.cost.Round(time.Microsecond), time.Duration(t.batching.MaxBatchCost))
	v := verdict{batched: true, most: t.unit, dear: true, anyValue: true, proof: catalog.ProofStructure}
	if !t.graph.Proven {
		few, err := t.grow(ctx, base, t.fewRows(), t.compare)
		if err != nil {
			return few, err
		}
		if !few.batched || few.tried == "" || t.rounding.most > 0 || base.telling == 0 {
			wrong := cmp.Or(few.wrong, t.rounding.wrong, "no small batch shows it")
			return verdict{
				reason: fmt.Sprintf("%s, and its rows are not run one by one, because they are not proven independent: %s", over, wrong),
				proof:  catalog.ProofNone, obstacle: t.graph.obstacle(),
			}, nil
		}
		v = verdict{batched: true, most: t.unit, dear: true, proof: catalog.ProofExamples, obstacle: t.graph.obstacle(), difference: few.difference}
	}
	if len(t.batching.AllowedBatchSizes) > 0 {
		v.allowed = []int{t.unit}
	}
	v.reason = over + ", so its rows are run one by one; they are proven independent by " + string(v.proof)
	return v, nil
}

// fewRows are the sizes of the batches that are run to see whether rows are independent where more than one is too many to serve.
func (t *trial) fewRows() []int {
	if len(t.batching.AllowedBatchSizes) == 0 {
		return []int{2, 3}
	}
	if t.unit > 1 {
		return t.batching.AllowedBatchSizes[:1]
	}
	return t.batching.AllowedBatchSizes[1:min(2, len(t.batching.AllowedBatchSizes))]
}

// unproven is the verdict for a model that needs the proof and fails it.
func (t *trial) unproven(format string, args ...any) verdict {
	wrong := fmt.Sprintf(format, args...)
	return verdict{reason: "batching is not proven harmless: " + wrong, wrong: wrong, proof: catalog.ProofNone, obstacle: t.graph.obstacle()}
}

// undecided is the verdict for a model of which the proof shows nothing, for want of data that mean something to it.
func (t *trial) undecided(format string, args ...any) verdict {
	v := t.unproven(format, args...)
	v.reason += "; if you know that rows do not influence each other, batching.mode: on joins them"
	return v
}

// comparison returns how far the outputs of a batch of the baseline's rows are from those of the rows alone, or what is wrong.
type comparison func(b *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string)

// grow runs batches of growing size, up to the one that exceeds the budget of an execution. With a comparison the verdict is
// whether rows in them answer as they do alone; without one the runs only warm up, and a failure ends them.
func (t *trial) grow(ctx context.Context, base *baseline, sizes []int, compare comparison) (verdict, error) {
	v := verdict{batched: true, most: 1}
	if base == nil {
		return v, nil
	}
	var tried []string
	smaller := 0
	var growth memoryGrowth
	growth.saw(t.replica.unit.Meter.Read().Memory, t.unit)
	for _, size := range sizes {
		if t.spent > trialTime || size*base.bytes > trialBytes {
			v.end = fmt.Sprintf("; %d rows would exceed the memory or the time that a proof may take", size)
			break
		}
		seen, err := t.size(ctx, base, smaller, size, compare)
		if err != nil {
			return v, err
		}
		if seen.wrong != "" && compare != nil {
			return t.unproven("%s", seen.wrong), nil
		}
		if seen.wrong != "" || seen.memory {
			// Trusted sizes stay allowed: of one that ran out of memory the scheduler knows, as of any later batch that does, and tries it
			// again. What is not proven is not used, and nothing is proven any more once requests come.
			then := "batches of so many rows are formed all the same, because batching.mode is on or their rows are proven independent by structure"
			v.end = fmt.Sprintf("; the device's memory does not suffice for %d rows", size)
			if compare != nil && !t.graph.Proven {
				then = fmt.Sprintf("no batch has more than %d rows; to have more proven, unload the version and load it again when memory is free", v.most)
				v.end += " (larger ones are tried when the version is loaded again)"
			}
			t.host.log.Warn("a batch size failed in warm-up", "model", t.replica.model, "version", t.replica.number, "device", t.replica.device.Name,
				"rows", size, "cause", cmp.Or(seen.wrong, "out of memory"), "then", then)
			break
		}
		v.difference = max(v.difference, seen.difference)
		v.most, smaller = size, size
		if size > t.unit {
			growth.saw(t.replica.unit.Meter.Read().Memory, size)
			v.rowMemory = growth.perRow
		}
		tried = append(tried, strconv.Itoa(size))
		if len(t.batching.AllowedBatchSizes) > 0 {
			v.allowed = append(v.allowed, size)
		}
		if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && seen.cost > budget && base.cost <= budget {
			v.end, v.dear = fmt.Sprintf("; more rows would exceed batching.max_batch_cost (%v)", budget), true
			break
		}
	}
	if len(tried) == 0 && compare != nil && !t.graph.Proven {
		return t.unproven("no batch could be tried%s", v.end), nil
	}
	v.tried = strings.Join(tried, ", ")
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
	full := repeats
	if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && base.cost > budget {
		full = 2 // to see whether rows are independent, not what they cost
	}
	runs := full
	if len(t.batching.AllowedBatchSizes) > 0 && size > smaller+1 {
		runs++
	}
	for k := range runs {
		different := size // rows; the rest is padding
		if k == full {
			different = smaller + 1
		}
		rows := make([]int, size)
		order := t.rng.Perm(len(base.sets))
		for i := range rows {
			rows[i] = order[min(i, different-1)%len(order)]
		}
		outputs, cost, err := t.run(ctx, t.join(base, rows), size, k == 0)
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			if engine.KindOf(failed) == engine.OutOfMemory {
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
		if size > t.unit && smaller <= t.unit && k == 0 && base.bucket == "" && !t.graph.Proven {
			t.decision.observe(base.outputs[0], outputs, t.unit, size)
			base.scale = nil
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

// compare is the comparison of the proof. What may be rounding is noted, and is for who asked to judge.
func (t *trial) compare(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs, func(d tensor.DType, far float64, wrong string) bool {
		if far > t.rough(d) {
			return false
		}
		t.rounding.note(far, wrong)
		return true
	})
}

// compareRoughly is the comparison of rows that are proven independent already: it finds only what rounding cannot explain.
func (t *trial) compareRoughly(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs, func(d tensor.DType, far float64, _ string) bool { return far <= t.rough(d) })
}

// compareStrictly tolerates what the setting does, and nothing more.
func (t *trial) compareStrictly(base *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string) {
	return t.compareUnless(base, rows, outputs, func(tensor.DType, float64, string) bool { return false })
}

// compareUnless compares each row of a batch with what it gave alone. A difference beyond the tolerance is wrong unless it is excused.
func (t *trial) compareUnless(base *baseline, rows []int, outputs []tensor.Tensor, excused func(d tensor.DType, far float64, wrong string) bool) (difference float64, wrong string) {
	s := t.decision.signature
	for o := range outputs {
		spec, out := &s.Outputs[o], outputs[o]
		dim := spec.BatchDim
		if !out.Shape.HasRows(dim, len(rows)) {
			return 0, fmt.Sprintf("output %q has the shape %v for %d rows, expected them in dimension %d", spec.Name, out.Shape, len(rows), dim)
		}
		for at, row := range rows {
			got := s.Share(t.decision.trims, o, dim, tensor.RowRange{Tensor: out, First: at, Rows: 1}, base.sets[row])
			far, err := deviation(got, base.answer(s, row, o), base.scaleOf(s, row, o), floor)
			if most := t.tolerance(spec.DType); err != nil || far > most {
				if wrong := inWords(spec, far, err, most, base.beside(len(rows))); !excused(spec.DType, far, wrong) {
					return 0, wrong
				}
			}
			difference = max(difference, far)
		}
	}
	return difference, ""
}
