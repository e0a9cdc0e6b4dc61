package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// repeats is how often each batch size is run at load. The first run is kept out of the cost model: it pays for what the
	// engine sets up once per shape.
	repeats = 4
	// sampleRows is how many different rows the proof of batching uses. Larger batches hold each of them several times.
	sampleRows = 8
	// trialTime bounds the device time of one version's trial, and trialBytes the memory of its largest batch. Sizes beyond
	// are not tried and, where batching must be proven, not used.
	trialTime  = 30 * time.Second
	trialBytes = 256 << 20
)

// trial runs made-up requests of a fresh version through the scheduler, each as an execution of its own: that warms the engine
// up, seeds the cost model, and shows whether rows may share an execution.
type trial struct {
	host     *Host
	replica  *replica
	decision *decision
	batching *modelrepo.Batching
	rng      *rand.Rand
	spent    time.Duration // device time so far
	halved   bool          // an execution was run in two halves, for want of memory
	// unit is how many rows the smallest execution has that the version may be run with: where a row runs alone, the others are copies.
	unit  int
	graph graphProof
	// unjoined is the plan by which single rows are run; nil: that of the replica.
	unjoined *execution.Plan
	// rounding is the largest difference that denies batching and may be rounding.
	rounding rounding
}

// baseline is what rows give alone.
type baseline struct {
	palette palette
	extent  int64 // of open dimensions
	// bucket is the lengths that the sets are padded to, for messages; "" where they are not padded.
	bucket  string
	sets    [][]tensor.Tensor // inputs, one row each
	outputs [][]tensor.Tensor // of as many rows as unit says, which are alike
	unit    int
	// kinds tells, by set, of which kind of numbers it is; nil: all are of one. Differences are relative to numbers of their kind.
	kinds []int
	scale map[[2]int][]float64 // by output and kind; see scales
	cost  time.Duration        // the least device time of a row
	// difference is the largest that rows alone in their bucket had; 0 where they are not padded.
	difference float64
	bytes      int // inputs and outputs of the largest row
	// against is why comparing with this baseline proves nothing; "" when it does.
	against string
	// telling counts the output elements that differ from row to row, silent the others. A batch that answers otherwise than rows
	// alone always tells; one that does not, tells nothing of the silent ones.
	telling, silent int
}

func (h *Host) newTrial(r *replica, d *decision, b *modelrepo.Batching) *trial {
	// Seeded, so that a model that fails its proof fails it again and can be looked into.
	t := &trial{host: h, replica: r, decision: d, batching: b, rng: rand.New(rand.NewPCG(1, uint64(r.number))), unit: 1}
	if d.against == "" && len(b.AllowedBatchSizes) > 0 {
		t.unit = b.AllowedBatchSizes[0]
	}
	return t
}

// alone runs rows alone until it finds made-up data that the model takes. It returns nil and the model's last error when the
// model takes none, and any other error as it is.
func (t *trial) alone(ctx context.Context) (found *baseline, refused *catalog.ModelError, err error) {
	rows := sampleRows
	if t.decision.against != "" {
		rows = repeats
	}
	for _, p := range palettes {
		for _, extent := range t.extents() {
			if t.spent > trialTime {
				return found, refused, nil
			}
			b, err := t.baseline(ctx, samples(t.decision.signature, rows, extent, p, t.rng))
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				refused = failed
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			b.palette, b.extent = p, extent
			switch {
			case t.decision.against != "" || b.against == "" && b.silent == 0:
				return b, nil, nil
			case found == nil || b.betterThan(found):
				found = b
			}
			break // the model takes this extent; other data may tell more
		}
	}
	return found, refused, nil
}

// extents returns the sizes to try for open dimensions, those that make no row too large.
func (t *trial) extents() []int64 {
	if !hasExtent(t.decision.signature) {
		return extents[:1]
	}
	return slices.DeleteFunc(t.decision.extents(), func(extent int64) bool {
		return sampleBytes(t.decision.signature, extent) > trialBytes/sampleRows
	})
}

// baseline runs every set alone.
func (t *trial) baseline(ctx context.Context, sets [][]tensor.Tensor) (*baseline, error) {
	b := &baseline{sets: sets, unit: t.unit}
	for k, set := range sets {
		outputs, cost, err := t.single(ctx, set, k == 0)
		if err != nil {
			return nil, err
		}
		if k == 1 || k > 1 && cost < b.cost {
			b.cost = cost
		}
		b.bytes = max(b.bytes, bytesOf(set)+bytesOf(outputs)/t.unit)
		b.outputs = append(b.outputs, outputs)
		if budget := time.Duration(t.batching.MaxBatchCost); k+1 >= repeats && budget > 0 && b.cost > budget {
			// Too slow for batches of any size.
			b.sets = sets[:k+1]
			break
		}
	}
	if !differ(b.sets) {
		b.against = "the model takes no made-up input but a constant one, which shows nothing"
	}
	for o := range t.decision.signature.Outputs {
		rows := make([]tensor.Tensor, len(b.outputs))
		finite := false
		for k := range rows {
			rows[k] = b.outputs[k][o]
			_, ok := magnitude(rows[k])
			finite = finite || ok
		}
		if !finite {
			b.against = cmp.Or(b.against, fmt.Sprintf("output %q has no finite number for any made-up input, which shows nothing", t.decision.signature.Outputs[o].Name))
		}
		telling, silent := varying(rows)
		b.telling += telling
		b.silent += silent
	}
	return b, nil
}

// answer returns what a row gave alone of output o.
func (b *baseline) answer(s *tensor.Signature, row, o int) tensor.Tensor {
	out, dim := b.outputs[row][o], s.Outputs[o].BatchDim
	if dim == tensor.NoBatch || b.unit == 1 || !out.Shape.HasRows(dim, b.unit) {
		return out
	}
	return tensor.RowRange{Tensor: out, Rows: 1}.Copy(dim) // the others are alike
}

// scaleOf returns the scale of output o of a row: by element, the largest magnitude among the rows of its kind.
func (b *baseline) scaleOf(s *tensor.Signature, row, o int) []float64 {
	key := [2]int{o, b.kind(row)}
	if scale, known := b.scale[key]; known {
		return scale
	}
	var rows []tensor.Tensor
	for k := range b.outputs {
		if b.kind(k) == key[1] {
			rows = append(rows, b.answer(s, k, o))
		}
	}
	if b.scale == nil {
		b.scale = map[[2]int][]float64{}
	}
	b.scale[key] = scales(rows)
	return b.scale[key]
}

func (b *baseline) kind(row int) int {
	if b.kinds == nil {
		return 0
	}
	return b.kinds[row]
}

// betterThan reports whether b can prove what c cannot.
func (b *baseline) betterThan(c *baseline) bool {
	if (b.against == "") != (c.against == "") {
		return b.against == ""
	}
	return b.telling > c.telling
}

// repeat runs some of the baseline's rows alone once more. Costs are kept by shape: a version whose inputs turned out to have no
// rows has other shape keys than it had during its trial. base may be nil.
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

// single runs one row, or what takes the place of one, in the smallest execution that there may be. The outputs have as many rows.
func (t *trial) single(ctx context.Context, set []tensor.Tensor, unmeasured bool) ([]tensor.Tensor, time.Duration, error) {
	return t.execute(ctx, &execution.Job{Unit: t.replica.unit, Inputs: t.copies(set), Rows: t.unit, Plan: t.unjoined}, unmeasured)
}

// copies returns inputs of trial.unit rows, each like that of the set.
func (t *trial) copies(set []tensor.Tensor) []tensor.Tensor {
	if t.unit == 1 {
		return set
	}
	inputs := slices.Clone(set)
	for i, in := range set {
		inputs[i] = in.Repeated(t.decision.signature.Inputs[i].BatchDim, t.unit)
	}
	return inputs
}

// run executes one made-up request and returns its outputs and the device time that it took.
func (t *trial) run(ctx context.Context, inputs []tensor.Tensor, rows int, unmeasured bool) ([]tensor.Tensor, time.Duration, error) {
	return t.execute(ctx, &execution.Job{Unit: t.replica.unit, Inputs: inputs, Rows: rows}, unmeasured)
}

// trialPatience is how long a trial waits for one of its executions, on a device however busy.
const trialPatience = 24 * time.Hour

func (t *trial) execute(ctx context.Context, j *execution.Job, unmeasured bool) ([]tensor.Tensor, time.Duration, error) {
	// The model's own limit is for callers: nobody waits for this.
	j.Task = sharedsched.Task{Alone: true, Unmeasured: unmeasured, Limit: time.Now().Add(trialPatience)}
	for {
		outcome, err := t.host.submit(ctx, t.replica, j)
		if refusal, is := errors.AsType[*sharedsched.Refusal](err); is && refusal.Reason == sharedsched.RefusedQueueFull {
			if refusal.RetryAfter < 0 {
				// It is larger than all that may ever wait, which for a trial is a limit of memory like others.
				return nil, 0, &catalog.ModelError{Model: t.replica.model, Version: t.replica.number, Err: &engine.Error{Kind: engine.OutOfMemory, Err: refusal}}
			}
			// Live traffic fills the queues. Its bytes drain, so there is room sooner or later.
			if err := pause(ctx, max(refusal.RetryAfter, time.Millisecond)); err != nil {
				return nil, 0, err
			}
			continue
		}
		cost := cmp.Or(outcome.DeviceTime, outcome.Compute)
		t.spent += cost
		if err != nil {
			return nil, 0, err
		}
		t.halved = t.halved || j.Split()
		outputs, err := j.Join()
		return outputs, cost, err
	}
}

// join returns the inputs of a request with these rows of the baseline.
func (t *trial) join(b *baseline, rows []int) []tensor.Tensor {
	inputs := make([]tensor.Tensor, len(t.decision.signature.Inputs))
	for i := range inputs {
		dim := t.decision.signature.Inputs[i].BatchDim
		if dim == tensor.NoBatch {
			inputs[i] = b.sets[0][i]
			continue
		}
		ranges := make([]tensor.RowRange, len(rows))
		for k, row := range rows {
			ranges[k] = tensor.RowRange{Tensor: b.sets[row][i], Rows: 1}
		}
		in := ranges[0].Tensor
		joined := tensor.Tensor{DType: in.DType, Shape: in.Shape.With(dim, int64(len(rows)))}
		if p, pads := t.decision.signature.Inputs[i].Padding(in.Shape); pads {
			joined.Shape[p.Dim] = p.Size
			joined.Data = make([]byte, tensor.PaddedSize(dim, ranges, p))
			tensor.JoinPadded(joined.Data, dim, ranges, p)
		} else {
			joined.Data = make([]byte, tensor.JoinedSize(dim, ranges))
			tensor.JoinRows(joined.Data, dim, ranges)
		}
		inputs[i] = joined
	}
	return inputs
}

// beside says in what company a row of the baseline ran, among so many rows.
func (b *baseline) beside(rows int) string {
	switch {
	case b.bucket == "":
		return fmt.Sprintf("among %d rows", rows)
	case rows == b.unit:
		return "padded to " + b.bucket
	}
	return fmt.Sprintf("among %d rows padded to %s", rows, b.bucket)
}

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
