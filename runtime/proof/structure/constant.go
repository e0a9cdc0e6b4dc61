package structure

import (
	"encoding/binary"
	"math"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// constant is what is known of a tensor in the file: its dimensions, and its elements where they may be part of a
// shape.
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
	elems := make([]elem, 0, count)
	if raw := t.GetRawData(); len(raw) > 0 {
		width := map[onnx.TensorProto_DataType]int{
			onnx.TensorProto_INT64: 8, onnx.TensorProto_INT32: 4, onnx.TensorProto_BOOL: 1,
		}[onnx.TensorProto_DataType(t.GetDataType())]
		if len(raw) != count*width || len(t.GetInt64Data())+len(t.GetInt32Data()) > 0 {
			return nil
		}
		for ; len(raw) > 0; raw = raw[width:] {
			var n int64
			switch width {
			case 8:
				n = int64(binary.LittleEndian.Uint64(raw))
			case 4:
				n = int64(int32(binary.LittleEndian.Uint32(raw)))
			default:
				n = int64(raw[0])
			}
			elems = append(elems, number(n))
		}
		return elems
	}
	for _, n := range t.GetInt64Data() {
		elems = append(elems, number(n))
	}
	for _, n := range t.GetInt32Data() {
		elems = append(elems, number(int64(n)))
	}
	if len(elems) != count {
		return nil
	}
	return elems
}

// floats is what integers is, of a tensor of floats.
func floats(t *onnx.TensorProto, count int) []float64 {
	var list []float64
	if raw := t.GetRawData(); len(raw) > 0 {
		if len(raw) != 4*count || len(t.GetFloatData()) > 0 {
			return nil
		}
		for ; len(raw) > 0; raw = raw[4:] {
			list = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
		return list
	}
	for _, f := range t.GetFloatData() {
		list = append(list, float64(f))
	}
	if len(list) != count {
		return nil
	}
	return list
}
