package proof

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

const (
	// repeats is how often each batch size is run at load. The first run is kept out of the cost model: it pays for the
	// engine's set-up once per shape.
	repeats = 4
	// sampleRows is how many different rows the proof of batching uses. Larger batches hold each of them several times.
	sampleRows = 8
	// trialTime bounds the device time of one version's trial, and trialBytes the memory of its largest batch. Sizes
	// beyond are not tried and, where batching must be proven, not used.
	trialTime  = 30 * time.Second
	trialBytes = 256 << 20
)

// trial runs made-up requests, each as an execution of its own: that warms the engine up, seeds the cost model, and
// shows whether rows may share an execution.
type trial struct {
	runner   Runner
	subject  *Subject
	decision *Decision
	batching *modelrepo.Batching
	rng      *rand.Rand
	spent    time.Duration // device time so far
	grown    bool          // the model does clearly more where integers are large
	halved   bool          // an execution was run in two halves, for lack of memory
	// unit is how many rows the smallest execution has that the version may be run with: where a row runs alone, the
	// others are copies.
	unit  int
	graph graphProof
	// asItCame has single rows run as requests do that share no execution.
	asItCame bool
	plan     plan
	// rounding is the largest difference beyond the tolerance that may be rounding.
	rounding rounding
}

// newTrial is seeded, so that a model that fails its proof fails it again and can be looked into.
func newTrial(r Runner, s *Subject, d *Decision, seed uint64) *trial {
	return &trial{
		runner: r, subject: s, decision: d, batching: s.Batching,
		rng: rand.New(rand.NewPCG(seed, uint64(s.Version))), unit: 1,
	}
}

// newLoadTrial returns the trial of a version that is being loaded.
func newLoadTrial(r Runner, s *Subject, d *Decision) *trial {
	t := newTrial(r, s, d, 1)
	t.plan.told = s.Told
	if d.Against == "" && len(s.Batching.AllowedBatchSizes) > 0 {
		t.unit = s.Batching.AllowedBatchSizes[0]
	}
	return t
}

// single runs one row, or the rows that take the place of one, in the smallest execution that there may be. The outputs
// have as many rows.
func (t *trial) single(ctx context.Context, set []tensor.Tensor,
	unmeasured bool,
) ([]tensor.Tensor, time.Duration, error) {
	return t.execute(ctx, Request{Inputs: t.copies(set), Rows: t.unit, Unmeasured: unmeasured, AsItCame: t.asItCame})
}

// copies returns inputs of trial.unit rows, each like that of the set.
func (t *trial) copies(set []tensor.Tensor) []tensor.Tensor {
	if t.unit == 1 {
		return set
	}
	inputs := slices.Clone(set)
	for i, in := range set {
		inputs[i] = in.Repeated(t.decision.Signature.Inputs[i].BatchDim, t.unit)
	}
	return inputs
}

// run executes one made-up request and returns its outputs and the device time that it took.
func (t *trial) run(ctx context.Context, inputs []tensor.Tensor, rows int,
	unmeasured bool,
) ([]tensor.Tensor, time.Duration, error) {
	return t.execute(ctx, Request{Inputs: inputs, Rows: rows, Unmeasured: unmeasured})
}

func (t *trial) execute(ctx context.Context, r Request) ([]tensor.Tensor, time.Duration, error) {
	a, err := t.runner.Run(ctx, r)
	t.plan.ran()
	t.spent += a.Cost
	t.halved = t.halved || a.Halved
	if err != nil {
		return nil, 0, err
	}
	return a.Outputs, a.Cost, nil
}

// join returns the inputs of a request with these rows of the baseline.
func (t *trial) join(b *baseline, rows []int) []tensor.Tensor {
	inputs := make([]tensor.Tensor, len(t.decision.Signature.Inputs))
	for i := range inputs {
		dim := t.decision.Signature.Inputs[i].BatchDim
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
		if p, pads := t.decision.Signature.Inputs[i].Padding(in.Shape); pads {
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

// Runner runs made-up requests where live ones run, each as an execution of its own, and waits for the device as long
// as that takes.
type Runner interface {
	// Run runs a request. The error is a *catalog.ModelError where the model failed on it, of the kind
	// engine.OutOfMemory where memory does not suffice; any other ends the proof. The cost is also reported for a
	// failed request.
	Run(context.Context, Request) (Answer, error)
	// Memory returns the version's present part of its device's memory.
	Memory() engine.Memory
}

// Request is one made-up request.
type Request struct {
	Inputs []tensor.Tensor
	Rows   int
	// Unmeasured keeps its time out of the expected time of later requests.
	Unmeasured bool
	// AsItCame runs it like requests that share no execution: without padding, and by a plan of their own.
	AsItCame bool
}

// Answer is the outcome of a request.
type Answer struct {
	Outputs []tensor.Tensor // all of them
	Cost    time.Duration   // device time
	Halved  bool            // it was run in several parts, for lack of memory
}
