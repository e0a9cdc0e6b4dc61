package structure

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// constant holds the known facts about a tensor in the file: its dimensions, and its elements where they may be part of
// a shape.
func constant(t *onnx.TensorProto) *value {
	v := &value{ranked: true, dtype: onnx.TensorProto_DataType(t.GetDataType())}
	count := int64(1)
	for _, d := range t.GetDims() {
		if d < 0 || !small(d) {
			return &value{}
		}
		v.dims = append(v.dims, size(d))
		if count *= d; !small(count) {
			count = maxCoef
		}
	}
	if count > maxElems || t.GetDataLocation() != onnx.TensorProto_DEFAULT || t.GetSegment() != nil {
		return v
	}
	switch onnx.TensorProto_DataType(t.GetDataType()) {
	case onnx.TensorProto_INT64, onnx.TensorProto_INT32, onnx.TensorProto_BOOL:
		if ints := integers(t, int(count)); ints != nil {
			return v.withElems(ints)
		}
	case onnx.TensorProto_FLOAT:
		v.floats = floats(t, int(count))
	default: // no shape is made of others
	}
	return v
}

// integers returns the count elements of a tensor of integers; nil: they are not all there, or given twice.
func integers(t *onnx.TensorProto, count int) []elem {
	list := slices.Clone(t.GetInt64Data())
	for _, n := range t.GetInt32Data() {
		list = append(list, int64(n))
	}
	width, decode := 1, func(b []byte) int64 { return int64(b[0]) }
	switch onnx.TensorProto_DataType(t.GetDataType()) {
	case onnx.TensorProto_INT64:
		width, decode = 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
	case onnx.TensorProto_INT32:
		width, decode = 4, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }
	default: // of bools
	}
	list, ok := listed(t.GetRawData(), list, count, width, decode)
	if !ok {
		return nil
	}
	return numbers(list)
}

// floats is integers for a tensor of floats.
func floats(t *onnx.TensorProto, count int) []float64 {
	var list []float64
	for _, f := range t.GetFloatData() {
		list = append(list, float64(f))
	}
	list, _ = listed(t.GetRawData(), list, count, 4, func(b []byte) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	})
	return list
}

// listed returns the count elements of a tensor, which are in raw, each so many bytes wide, or in a list.
func listed[T any](raw []byte, list []T, count, width int, decode func([]byte) T) ([]T, bool) {
	if len(raw) > 0 && len(list) > 0 {
		return nil, false
	}
	for ; len(raw) >= width; raw = raw[width:] {
		list = append(list, decode(raw))
	}
	if len(raw) > 0 || len(list) != count {
		return nil, false
	}
	return list, true
}
