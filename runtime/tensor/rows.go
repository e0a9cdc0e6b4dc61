package tensor

import (
	"encoding/binary"
	"slices"
)

// RowRange is some consecutive rows of a tensor. Along which dimension they are rows, its user says.
type RowRange struct {
	Tensor
	First, Rows int
}

// JoinRows writes the tensor that has the rows of all ranges, in their order, along dimension dim: dst must have
// JoinedSize bytes and not overlap the ranges' data. The tensors agree in element type and in every dimension but dim,
// and have the rows that the ranges name; the caller has checked that.
func JoinRows(dst []byte, dim int, ranges []RowRange) {
	if len(dst) == 0 { // however large some dimensions are
		return
	}
	first := &ranges[0]
	if first.DType == String {
		joinStrings(dst, dim, ranges)
		return
	}
	outer, inner := around(first.Shape, dim)
	row := inner * first.DType.Size()
	total := 0
	for i := range ranges {
		total += ranges[i].Rows
	}
	at := 0
	for i := range ranges {
		r := &ranges[i]
		has, n, from := int(r.Shape[dim])*row, r.Rows*row, r.cursor()
		for o := range outer {
			from.copy(dst[o*total*row+at:][:n], o*has+r.First*row)
		}
		at += n
	}
}

// JoinedSize returns the bytes of the tensor that JoinRows writes.
func JoinedSize(dim int, ranges []RowRange) int {
	size := 0
	for i := range ranges {
		r := &ranges[i]
		outer, inner := around(r.Shape, dim)
		if r.DType == String {
			for rest := r.Data; len(rest) > 0; {
				var chunk []byte
				chunk, rest = r.nextStrings(rest, dim, inner)
				size += len(chunk)
			}
			continue
		}
		size += outer * r.Rows * inner * r.DType.Size()
	}
	return size
}

// Copy returns the rows as a tensor of their own, in fresh memory.
func (r RowRange) Copy(dim int) Tensor { return r.copy(dim, nil) }

func (r RowRange) copy(dim int, in Memory) Tensor {
	ranges := [1]RowRange{r}
	data := room(in, JoinedSize(dim, ranges[:]))
	JoinRows(data, dim, ranges[:])
	return Tensor{DType: r.DType, Shape: r.Shape.With(dim, int64(r.Rows)), Data: data}
}

// Clone returns a copy in fresh memory.
func (t Tensor) Clone() Tensor { return t.clone(nil) }

func (t Tensor) clone(in Memory) Tensor {
	data := room(in, t.Size())
	t.CopyTo(data)
	return Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: data}
}

// joinStrings does the work of JoinRows for elements of varying length, which can only be found from the front: it
// advances through all ranges side by side.
func joinStrings(dst []byte, dim int, ranges []RowRange) {
	_, inner := around(ranges[0].Shape, dim)
	rest := make([][]byte, len(ranges))
	for i := range ranges {
		rest[i] = ranges[i].Data
	}
	for len(dst) > 0 {
		for i := range ranges {
			var chunk []byte
			chunk, rest[i] = ranges[i].nextStrings(rest[i], dim, inner)
			dst = dst[copy(dst, chunk):]
		}
	}
}

// nextStrings returns the bytes of the range's rows within the next stretch of all rows, and the rest after that
// stretch.
func (r *RowRange) nextStrings(data []byte, dim, inner int) (chunk, rest []byte) {
	start := stringsEnd(data, r.First*inner)
	end := start + stringsEnd(data[start:], r.Rows*inner)
	after := end + stringsEnd(data[end:], (int(r.Shape[dim])-r.First-r.Rows)*inner)
	return data[start:end], data[after:]
}

// stringsEnd returns where the first n elements of data end. Data is whole, as Tensor.Check makes sure.
func stringsEnd(data []byte, n int) int {
	at := 0
	for range n {
		at += 4 + int(binary.LittleEndian.Uint32(data[at:]))
	}
	return at
}

// around returns how many stretches of rows lie one after the other in memory, and the elements of one row within a
// stretch.
func around(s Shape, dim int) (outer, inner int) { return product(s[:dim]), product(s[dim+1:]) }

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
