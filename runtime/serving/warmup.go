package serving

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// warmUp runs the requests that the manifest lists for warm-up. The operator has written them, so that one that fails
// is a fault of the version, and it is not served.
func (r *Replica) warmUp(ctx context.Context, c residency.Candidate) error {
	r.loading.enter(catalog.StageWarmingUp)
	var done, of int64 // runs
	for i := range c.Manifest.Warmup {
		of += int64(c.Manifest.Warmup[i].Count)
	}
	told := func() {
		done++
		r.loading.count(done, of)
	}
	r.loading.count(0, of)
	for i := range c.Manifest.Warmup {
		w := &c.Manifest.Warmup[i]
		if err := r.runSample(ctx, c.Version, w, uint64(i), told); err != nil {
			name := strconv.Itoa(i)
			if w.Name != "" {
				name = strconv.Quote(w.Name)
			}
			return fmt.Errorf("%s: warm-up request %s: %w", c.Path(), name, err)
		}
	}
	if len(c.Manifest.Warmup) > 0 {
		r.forgetRuns(c)
	}
	return nil
}

// runSample runs one of these requests as often as its count says, and calls told after each run. seed makes its random
// values the same at each load.
func (r *Replica) runSample(ctx context.Context, v modelrepo.Version, w *modelrepo.Warmup, seed uint64,
	told func(),
) error {
	inputs, err := r.sample(v, w, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return err
	}
	rows, err := r.signature.Rows(inputs)
	if err != nil {
		return err
	}
	t := newRunner(r)
	t.crashed = nil // of rows that were made up
	plan := r.unit.Plan()
	for range w.Count {
		j := &execution.Job{Unit: r.unit, Inputs: inputs, Rows: rows, PerRow: true}
		j.Task = sharedsched.Task{Alone: !plan.Batched || rows <= plan.Most, Limit: time.Now().Add(trialPatience)}
		if _, err := t.run(ctx, j); err != nil {
			return err
		}
		told()
	}
	return nil
}

// sample makes the inputs of a warm-up request, in the order of the signature. If it lists none of the optional inputs,
// they are left out.
func (r *Replica) sample(v modelrepo.Version, w *modelrepo.Warmup, rng *rand.Rand) ([]tensor.Tensor, error) {
	var names []string
	inputs, n := make([]tensor.Tensor, r.signature.MostInputs()), len(r.signature.Inputs)
	for i := range inputs {
		spec, optional := r.signature.Takes(i)
		names = append(names, spec.Name)
		in, ok := w.Inputs[spec.Name]
		switch {
		case ok && optional:
			n = len(inputs)
		case optional:
			continue
		case !ok:
			return nil, fmt.Errorf("it has no input %q; add it", spec.Name)
		}
		var err error
		if inputs[i], err = sampleInput(v, &in, spec, w.BatchSize, rng); err != nil {
			return nil, fmt.Errorf("input %q: %w", spec.Name, err)
		}
	}
	for name := range w.Inputs {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the model has no input %q, only %s; correct the name", name, strings.Join(names, ", "))
		}
	}
	return inputs[:n], nil
}

// sampleInput makes one input: from a file, or of zeros or random values. A shape without the dimension of rows is
// repeated for each row.
func sampleInput(v modelrepo.Version, in *modelrepo.WarmupInput, spec *tensor.Spec, rows int,
	rng *rand.Rand,
) (t tensor.Tensor, err error) {
	t = tensor.Tensor{DType: spec.DType, Shape: slices.Clone(in.Shape)}
	if dtype := tensor.DType(in.DType); dtype != tensor.Invalid && dtype != spec.DType {
		return t, fmt.Errorf("its elements are %v, but the model expects %v; correct the type", dtype, spec.DType)
	}
	dim := tensor.NoBatch // of the rows that are repeated
	if len(t.Shape)+1 == len(spec.Shape) {
		dim = max(0, spec.BatchDim)
		t.Shape = slices.Insert(t.Shape, dim, 1)
	}
	if in.File == "" {
		if dim != tensor.NoBatch {
			t.Shape[dim] = int64(rows)
		}
		return proof.MadeUp(t.DType, t.Shape, in.Data == modelrepo.ZeroData, rng), nil
	}
	elements, _ := t.Shape.Elements()
	most := elements * int64(max(t.DType.Size(), 1<<10)) // a text may take a KiB
	if t.Data, err = v.WarmupFile(in.File, most); err != nil {
		return t, err
	}
	if err := t.Check(); err != nil {
		return t, fmt.Errorf("%s: %w; correct the file, or the shape", in.File, err)
	}
	return t.Repeated(dim, rows), nil
}
