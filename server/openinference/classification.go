package openinference

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/web"
)

// classes returns the largest elements of each row of an output, as many as are asked for and there are, as texts
// VALUE:INDEX, or VALUE:INDEX:LABEL where the model's settings have labels. The shape is [rows, classes], or [classes]
// where the output has no rows in its first dimension. Equal elements are in the order of their indexes, and what is no
// number comes last. The error is a *status.AnswerTooLargeError: texts may take many times the bytes of the elements.
//
// It sorts each whole row, whatever is asked for. ranks must have said that the type can be ordered.
func classes(spec *tensor.Spec, t *tensor.Tensor, asked uint64, limit int) (tensor.Tensor, error) {
	rows, of := int64(1), t.Shape
	if spec.BatchDim == 0 {
		rows, of = t.Shape[0], t.Shape[1:]
	}
	in, _ := of.Elements() // how many a row has; the tensor was checked
	n := min(uint64(in), asked)
	out := tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{int64(n)}}
	if spec.BatchDim == 0 {
		out.Shape = tensor.Shape{rows, int64(n)}
	}
	var labels []string
	if spec.Shown != nil {
		labels = spec.Shown.Labels
	}
	var turn protect.Turn
	defer turn.End()
	const large = 64 << 10
	if len(t.Data) > large {
		turn.Begin() // what follows takes several times as much
	}
	size := t.DType.Size()
	// Both are used for one row after the other. order has the indexes of its elements, the largest first.
	order, ranks := make([]int32, in), make([]uint64, in)
	var text []byte
	for row := t.Data; len(row) > 0; row = row[int(in)*size:] {
		for i := range order {
			order[i], ranks[i] = int32(i), rank(t.DType, row[i*size:])
		}
		// Stable, so that equal elements stay in the order of their indexes.
		slices.SortStableFunc(order, func(a, b int32) int {
			turn.Step(1)
			return cmp.Compare(ranks[b], ranks[a])
		})
		for _, i := range order[:n] {
			text = appendPlain(text[:0], t.DType, row[int(i)*size:])
			text = strconv.AppendInt(append(text, ':'), int64(i), 10)
			if int(i) < len(labels) {
				text = append(append(text, ':'), labels[i]...)
			}
			if out.Data = tensor.AppendString(out.Data, text); len(out.Data) > limit {
				return out, &status.AnswerTooLargeError{Bytes: len(out.Data), Limit: limit, Remedy: "ask for fewer classes"}
			}
		}
	}
	return out, nil
}

// rank returns a number that orders the first element among others of its type, larger for larger ones; 0 is that of
// what is no number.
func rank(dtype tensor.DType, raw []byte) uint64 {
	const sign = 1 << 63
	switch {
	case dtype.IsFloat():
		return rankOfFloat(web.FloatOf(dtype, raw))
	case web.IsSigned(dtype):
		return web.WholeOf(dtype, raw) ^ sign // negative numbers below the others
	}
	return web.WholeOf(dtype, raw)
}

// rankOfFloat orders floats by their bits. Those of positive ones grow with the value, and those of negative ones
// against it, so the latter are inverted.
func rankOfFloat(x float64) uint64 {
	const sign = 1 << 63
	switch bits := math.Float64bits(x); {
	case math.IsNaN(x):
		return 0
	case x == 0: // 0 and -0 are equal
		return sign
	case bits&sign != 0:
		return ^bits
	default:
		return bits | sign
	}
}

// appendPlain appends the first element as C's printf writes it, as Triton does: %d, or %f.
func appendPlain(out []byte, dtype tensor.DType, raw []byte) []byte {
	if !dtype.IsFloat() {
		return web.AppendValue(out, dtype, raw)
	}
	switch x := web.FloatOf(dtype, raw); {
	case math.IsNaN(x):
		return append(out, "nan"...)
	case math.IsInf(x, 1):
		return append(out, "inf"...)
	case math.IsInf(x, -1):
		return append(out, "-inf"...)
	default:
		return strconv.AppendFloat(out, x, 'f', 6, 64)
	}
}

// ranks reports whether elements of a type can be ordered.
func ranks(d tensor.DType) bool { return d != tensor.Bool && d != tensor.String }
