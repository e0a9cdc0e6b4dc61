package execution

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// Join returns the wanted outputs of all rows. The task must have ended well, so that the pieces cover all rows once.
// The error is a *catalog.ModelError: the outputs of several executions do not fit together.
func (j *Job) Join() ([]tensor.Tensor, error) {
	for _, p := range j.pieces {
		if p.rows == j.Rows {
			return p.outputs, nil // there may be parts besides that could not be answered for as such
		}
	}
	// Executions of one job may end in any order.
	slices.SortFunc(j.pieces, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
	specs := j.Unit.Plan().Signature.Outputs
	results := make([]tensor.Tensor, len(j.pieces[0].outputs))
	for i := range results {
		spec := &specs[j.Output(i)]
		t, err := j.joinOutput(i, spec)
		if err != nil {
			err = fmt.Errorf("the request of %d rows was split over %d executions and output %q cannot be joined: %w",
				j.Rows, len(j.pieces), spec.Name, err)
			return nil, &catalog.ModelError{Model: j.Unit.Model, Version: j.Unit.Version, Err: err}
		}
		results[i] = t
	}
	return results, nil
}

// joinOutput joins the pieces of wanted output i, in the order of their rows. An output without rows must have the same
// value in all of them.
func (j *Job) joinOutput(i int, spec *tensor.Spec) (tensor.Tensor, error) {
	first := j.pieces[0].outputs[i]
	dim := spec.BatchDim
	ranges := make([]tensor.RowRange, len(j.pieces))
	for k, p := range j.pieces {
		t := p.outputs[i]
		switch {
		case dim == tensor.NoBatch && (!slices.Equal(t.Shape, first.Shape) || !bytes.Equal(t.Data, first.Data)):
			return tensor.Tensor{}, fmt.Errorf(
				"it has no batch dimension and rows %d to %d give another value than the first", p.first,
				p.first+p.rows-1)
		case t.DType != first.DType:
			return tensor.Tensor{}, fmt.Errorf("rows %d to %d give elements of the type %v, the first %d rows %v",
				p.first, p.first+p.rows-1, t.DType, j.pieces[0].rows, first.DType)
		case dim != tensor.NoBatch && !t.Shape.EqualBut(dim, first.Shape):
			return tensor.Tensor{}, fmt.Errorf("rows %d to %d give the shape %v, the first %d rows %v",
				p.first, p.first+p.rows-1, t.Shape, j.pieces[0].rows, first.Shape)
		}
		ranges[k] = tensor.RowRange{Tensor: t, Rows: p.rows}
	}
	if dim == tensor.NoBatch {
		return first, nil
	}
	joined := tensor.Tensor{DType: first.DType, Shape: first.Shape.With(dim, int64(j.Rows))}
	joined.Data = make([]byte, tensor.JoinedSize(dim, ranges))
	tensor.JoinRows(joined.Data, dim, ranges)
	return joined, nil
}
