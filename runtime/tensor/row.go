package tensor

import "slices"

// RowBytes returns how many bytes Row copies.
func (t Tensor) RowBytes(dim, row int) int64 {
	if dim == NoBatch {
		return int64(t.Size())
	}
	return int64(JoinedSize(dim, []RowRange{{Tensor: t, First: row, Rows: 1}}))
}

// Row copies one row along dim, all where there are no rows (NoBatch).
func (t Tensor) Row(dim, row int) Tensor {
	if dim == NoBatch {
		return t.Clone()
	}
	return RowRange{Tensor: t, First: row, Rows: 1}.Copy(dim)
}

// Repeated returns n times the one row along dim. Where that changes nothing it is the tensor itself.
func (t Tensor) Repeated(dim, n int) Tensor {
	if dim == NoBatch || n == 1 {
		return t
	}
	ranges := slices.Repeat([]RowRange{{Tensor: t, Rows: 1}}, n)
	all := Tensor{DType: t.DType, Shape: t.Shape.With(dim, int64(n)), Data: make([]byte, JoinedSize(dim, ranges))}
	JoinRows(all.Data, dim, ranges)
	return all
}
