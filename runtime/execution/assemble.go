package execution

import "github.com/weftserve/weft/runtime/tensor"

// assemble copies the rows of all parts into the batch's inputs, once. On the way it pads lengths to their bucket,
// which is the same for all parts because the key says so, and fills up to size rows with copies of the last row: real
// data leads a model nowhere that a request could not.
func (x *execution) assemble(parts []part, size int) {
	rows := rowsOf(parts)
	all := parts[0].job.Inputs
	x.buf.batch.Feed(len(all))
	n := len(x.plan.Signature.Inputs)
	for i := n; i < len(all); i++ { // the job is alone
		if in := &all[i]; in.DType != tensor.Invalid {
			in.CopyTo(x.buf.batch.Input(i, in.DType, in.Shape, in.Size()))
		}
	}
	// Where a default is replaced the model may not keep to the shapes that it declares.
	x.buf.batch.Copied = x.plan.Copied || len(all) > n
	for i := range x.plan.Signature.Inputs {
		dim := x.plan.Signature.Inputs[i].BatchDim
		first := &all[i]
		if dim == tensor.NoBatch || first.Shape[dim] == 0 {
			// Equal in all parts: the key says so. A job without rows is alone.
			first.CopyTo(x.buf.batch.Input(i, first.DType, first.Shape, first.Size()))
			continue
		}
		ranges := x.buf.ranges[:0]
		for _, p := range parts {
			ranges = append(ranges, tensor.RowRange{Tensor: p.job.Inputs[i], First: p.first, Rows: p.rows})
		}
		// The last row of the last part, as a range of one row.
		last := ranges[len(ranges)-1]
		last.First, last.Rows = last.First+last.Rows-1, 1
		for range size - rows {
			ranges = append(ranges, last)
		}
		// The list keeps its room for the next input.
		x.buf.ranges = ranges
		x.buf.shape = append(x.buf.shape[:0], first.Shape...)
		x.buf.shape[dim] = int64(size)
		if p, pads := x.plan.Signature.Inputs[i].Padding(first.Shape); pads {
			x.buf.shape[p.Dim] = p.Size
			tensor.JoinPadded(x.buf.batch.Input(i, first.DType, x.buf.shape, tensor.PaddedSize(dim, ranges, p)), dim,
				ranges, p)
			continue
		}
		tensor.JoinRows(x.buf.batch.Input(i, first.DType, x.buf.shape, tensor.JoinedSize(dim, ranges)), dim, ranges)
	}
}
