package proof

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// Value says how requests are served that bring a value: of the inputs without rows, and of the sizes of open
// dimensions.
type Value struct {
	Signature *tensor.Signature
	// Trims are the output dimensions that are cut back where inputs are padded.
	Trims []tensor.Trim
	// Allowed are the sizes that an execution may have (none: any), and Most is the largest.
	Allowed []int
	Most    int
	// Budget is the device time that one execution may take; 0: no bound.
	Budget time.Duration
	// Tolerance is the one that the manifest states, 0 for none.
	Tolerance float64
	// Brought are the inputs that bring the value, for messages.
	Brought []tensor.Spec
}

// ValueFound is the result of the proof of a value.
type ValueFound struct {
	Wrong string        // the evidence against batching; "" for none
	Shown bool          // that there is nothing
	Spent time.Duration // device time
}

// Prove compares the results of a request's rows alone with those in batches, together with each other and with made-up
// rows, all with the request's value. Sets are the rows, as CopyRows returns them.
func (v *Value) Prove(ctx context.Context, r Runner, version int64, sets [][]tensor.Tensor) (f ValueFound) {
	s := &Subject{Version: version, Batching: &modelrepo.Batching{Tolerance: v.Tolerance, AllowedBatchSizes: v.Allowed}}
	t := newTrial(r, s, &Decision{Signature: v.Signature, trims: v.Trims}, 2)
	t.asItCame = true
	f.Wrong, f.Shown = t.value(ctx, v, sets)
	f.Spent = t.spent
	return f
}

// CopyRows returns the first rows of a request, one by one, in memory of their own.
func CopyRows(s *tensor.Signature, inputs []tensor.Tensor, n int) [][]tensor.Tensor {
	sets := make([][]tensor.Tensor, n)
	for k := range sets {
		sets[k] = make([]tensor.Tensor, len(inputs))
		for i := range inputs {
			if dim := s.Inputs[i].BatchDim; dim == tensor.NoBatch && k > 0 {
				sets[k][i] = sets[0][i]
			} else {
				sets[k][i] = inputs[i].Row(dim, k)
			}
		}
	}
	return sets
}

// value runs the proof. shown reports whether that showed something; wrong is the evidence against batching.
func (t *trial) value(ctx context.Context, v *Value, sets [][]tensor.Tensor) (wrong string, shown bool) {
	b := &baseline{unit: t.unit}
	came, _, err := t.add(ctx, b, sets, 0)
	if err != nil || came == 0 {
		return "", false
	}
	like := b.some(came)
	for n := range kinds {
		made := kinds[n].rows(like, v.Signature, t.rng)
		if !kinds[n].live || len(made) == 0 {
			continue
		}
		if _, _, err := t.add(ctx, b, made[:1], n+1); err != nil {
			return "", false
		}
	}
	if !differ(b.sets) {
		return "", false
	}
	all := len(b.sets)
	most := v.Most
	if most == 1 {
		most = 3 // rows that are to be run one by one are independent if those of small batches are
	}
	if v.Budget > 0 { // nor do requests get larger batches, about
		most = min(most, max(3, int(v.Budget/max(1, t.spent/time.Duration(all)))))
	}
	batches := [][]int{
		t.mix(2, 0, 0, came), t.mix(min(3, most), 0, 0, all), t.mix(2, 0, came-1, all), t.mix(most, 0, 0, all),
		t.mix(most, 0, 0, came),
	}
	f, err := t.batches(ctx, b, batches, most, "what a request brought for "+names(v.Brought))
	switch {
	case err != nil:
		return "", false
	case f.wrong != "":
		return f.wrong, true
	case t.rounding.against() != "":
		return t.rounding.against(), true
	}
	return "", !f.less && tells(b.outputs)
}

// tells reports whether an element of an output differs from row to row: rows that are answered alike show nothing. Not
// every output must vary, since a value may switch one off, and requests with it would never be joined.
func tells(answers [][]tensor.Tensor) bool {
	for o := range answers[0] {
		rows := make([]tensor.Tensor, len(answers))
		for k := range rows {
			rows[k] = answers[k][o]
		}
		if varied, _ := varying(rows); varied > 0 {
			return true
		}
	}
	return false
}
