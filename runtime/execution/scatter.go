package execution

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/tensor"
)

// scatter gives each part its rows of the batch's outputs, in memory of its own. It checks all outputs first, so that
// it answers all parts or, with an error, none.
func (x *execution) scatter(parts []part, size int) error {
	// The result of a request that ran alone goes back as it is, whatever the model made of its rows.
	whole := len(parts) == 1 && parts[0].rows == parts[0].job.Rows && size == parts[0].rows
	for i := range x.plan.Signature.Outputs {
		spec, out := &x.plan.Signature.Outputs[i], &x.buf.batch.Outputs[i]
		switch dim := spec.BatchDim; {
		case out.DType == tensor.Invalid:
			return fmt.Errorf("the run left output %q without a value", spec.Name)
		case whole || dim == tensor.NoBatch:
		case !out.Shape.HasRows(dim, size):
			return &rowsError{spec.Name, slices.Clone(out.Shape), size, dim}
		}
	}
	at := 0
	for i := range parts {
		p := &parts[i]
		outputs, bytes := x.take(p, at, whole), 0
		// An output without rows is not added up: each execution of a split request repeats it.
		for o := range outputs {
			if x.plan.Signature.Outputs[p.job.Output(o)].BatchDim != tensor.NoBatch {
				bytes += len(outputs[o].Data)
			}
		}
		p.job.answer(piece{first: p.first, rows: p.rows, size: size, outputs: outputs}, bytes)
		at += p.rows
	}
	return nil
}

// rowsError says that an output of an execution does not have a row for each row of the inputs, so that it is unknown
// which row belongs to which request: the model has left rows out, or the output's batch dimension is another one.
type rowsError struct {
	output    string
	shape     tensor.Shape
	rows, dim int
}

func (e *rowsError) Error() string {
	return fmt.Sprintf("output %q has the shape %v for %d rows, expected them in dimension %d", e.output, e.shape,
		e.rows, e.dim)
}

// take copies the outputs that a part wants out of the batch's, in which its rows begin at row at. whole takes them as
// they are.
func (x *execution) take(p *part, at int, whole bool) []tensor.Tensor {
	n := len(x.plan.Signature.Outputs)
	if p.job.Wanted != nil {
		n = len(p.job.Wanted)
	}
	outputs := make([]tensor.Tensor, n)
	for i := range outputs {
		o := p.job.Output(i)
		dim := x.plan.Signature.Outputs[o].BatchDim
		if whole {
			dim = tensor.NoBatch
		}
		outputs[i] = x.plan.Signature.Share(x.plan.Trims, o, dim,
			tensor.RowRange{Tensor: x.buf.batch.Outputs[o], First: at, Rows: p.rows}, p.job.Inputs, p.job.Memory)
	}
	return outputs
}
