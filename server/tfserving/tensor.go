package tfserving

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/wire/elements"
)

// dataTypes maps our element types to TensorFlow's.
var dataTypes = [...]tensorflow.DataType{
	tensor.Invalid: tensorflow.DataType_DT_INVALID, tensor.Bool: tensorflow.DataType_DT_BOOL,
	tensor.Int8: tensorflow.DataType_DT_INT8, tensor.Int16: tensorflow.DataType_DT_INT16,
	tensor.Int32: tensorflow.DataType_DT_INT32, tensor.Int64: tensorflow.DataType_DT_INT64,
	tensor.Uint8: tensorflow.DataType_DT_UINT8, tensor.Uint16: tensorflow.DataType_DT_UINT16,
	tensor.Uint32: tensorflow.DataType_DT_UINT32, tensor.Uint64: tensorflow.DataType_DT_UINT64,
	tensor.Float16: tensorflow.DataType_DT_HALF, tensor.BFloat16: tensorflow.DataType_DT_BFLOAT16,
	tensor.Float32: tensorflow.DataType_DT_FLOAT, tensor.Float64: tensorflow.DataType_DT_DOUBLE,
	tensor.String: tensorflow.DataType_DT_STRING,
}

// fault returns the error of a part of a tensor; the pipeline adds the name of the input.
func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}

// shapeMessage converts a shape. A size that is open is -1 in both.
func shapeMessage(s tensor.Shape) *tensorflow.TensorShapeProto {
	m := &tensorflow.TensorShapeProto{Dim: make([]*tensorflow.TensorShapeProto_Dim, len(s))}
	for i, size := range s {
		m.Dim[i] = &tensorflow.TensorShapeProto_Dim{Size: size}
	}
	return m
}

// decode reads the message that came for an input, with its large values from lifted. The error is a
// *tensor.FieldError.
//
// If tensor_content has bytes, they are all elements, in the layout of tensor.Tensor.Data, and are lent, not copied;
// lists are then passed over. Else the list of the dtype has the elements, and is copied. It may be shorter than the
// shape says: its last element stands for the others.
func decode(spec *tensor.Spec, m *tensorflow.TensorProto, lifted *elements.Lifted) (tensor.Tensor, error) {
	if want := dataTypes[spec.DType]; m.GetDtype() != want {
		return tensor.Tensor{}, fault("dtype", want.String(), m.GetDtype().String())
	}
	t := tensor.Tensor{DType: spec.DType}
	for _, d := range m.GetTensorShape().GetDim() {
		t.Shape = append(t.Shape, d.GetSize())
	}
	count, err := predict.Elements(spec, t.Shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	content := lifted.Bytes(m.GetTensorContent())
	if got := int64(content.Count); got > 0 {
		content.Lend(&t)
		want := count * int64(t.DType.Size())
		if t.DType == tensor.String || got != want {
			return t, fault("tensor_content", fmt.Sprintf("%d bytes (shape %v of %v); texts in string_val", want, t.Shape,
				t.DType), fmt.Sprintf("%d bytes", got))
		}
		return t, elements.CheckBools("tensor_content", &t)
	}
	l, err := listed(t.DType, m, lifted, count)
	if err != nil {
		return t, err
	}
	t.Data = l.data
	// The last element stands for each that is missing, or zero where none came. A few bytes could so become a tensor of
	// gigabytes, so what they may become is bounded.
	if missing := int(count) - l.n; missing > 0 {
		last := l.data[l.last:]
		if l.n == 0 {
			last = make([]byte, cmp.Or(t.DType.Size(), emptyText))
		}
		if size, most := len(last)*missing, protect.MostDecoded(len(l.data)); size > most {
			return t, fault(l.name, fmt.Sprintf("%d elements (shape %v): the last one stands for others of at most %d bytes",
				count, t.Shape, most), fmt.Sprintf("%d elements", l.n))
		}
		t.Data = append(slices.Clip(l.data), slices.Repeat(last, missing)...)
	}
	return t, nil
}

// emptyText is how many bytes a text without any takes in a tensor: its length.
const emptyText = 4

// list is the list of a message that belongs to an element type, in the form that a tensor has it.
type list struct {
	name string // of the field
	n    int    // how many elements came
	data []byte // the elements, in the layout of tensor.Tensor.Data
	last int    // where the last one begins in data
}

// listed returns the list that belongs to an element type, with at most that many elements. The error is a
// *tensor.FieldError. int_val and half_val have small numbers in 32 bits, so those must be within the type.
func listed(d tensor.DType, m *tensorflow.TensorProto, lifted *elements.Lifted, most int64) (list, error) {
	switch d {
	case tensor.Float32:
		return floats("float_val", lifted.Singles(m.GetFloatVal()), most, 4)
	case tensor.Float64:
		return floats("double_val", lifted.Doubles(m.GetDoubleVal()), most, 8)
	// Its numbers are the bits of halves, each in an int32.
	case tensor.Float16, tensor.BFloat16:
		return within("half_val", m.GetHalfVal(), most, 0, math.MaxUint16, 2)
	// TensorFlow has no lists of their own for whole numbers of less than 32 bits.
	case tensor.Int8:
		return within("int_val", m.GetIntVal(), most, math.MinInt8, math.MaxInt8, 1)
	case tensor.Int16:
		return within("int_val", m.GetIntVal(), most, math.MinInt16, math.MaxInt16, 2)
	case tensor.Int32:
		return within("int_val", m.GetIntVal(), most, math.MinInt32, math.MaxInt32, 4)
	case tensor.Uint8:
		return within("int_val", m.GetIntVal(), most, 0, math.MaxUint8, 1)
	case tensor.Uint16:
		return within("int_val", m.GetIntVal(), most, 0, math.MaxUint16, 2)
	case tensor.Int64:
		return each("int64_val", m.GetInt64Val(), most, func(b []byte, v int64) []byte {
			return little.AppendUint64(b, uint64(v))
		})
	case tensor.Uint32:
		return each("uint32_val", m.GetUint32Val(), most, little.AppendUint32)
	case tensor.Uint64:
		return each("uint64_val", m.GetUint64Val(), most, little.AppendUint64)
	case tensor.Bool:
		return each("bool_val", m.GetBoolVal(), most, func(b []byte, v bool) []byte {
			if v {
				return append(b, 1)
			}
			return append(b, 0)
		})
	default:
		return each("string_val", m.GetStringVal(), most, tensor.AppendString)
	}
}

var little = binary.LittleEndian

// each is a list whose elements put appends one by one.
func each[T any](name string, values []T, most int64, put func([]byte, T) []byte) (list, error) {
	l := list{name: name, n: len(values)}
	if err := l.fits(most); err != nil {
		return l, err
	}
	for _, v := range values {
		l.last = len(l.data)
		l.data = put(l.data, v)
	}
	return l, nil
}

// floats is a list of floats of so many bytes each, which lie in a message as they do in a tensor. It is a copy,
// because elements may have to be appended.
func floats(name string, e elements.Elements, most int64, bytes int) (list, error) {
	l := list{name: name, n: e.Count}
	if err := l.fits(most); err != nil {
		return l, err
	}
	l.data = slices.Concat(e.Pieces...)
	l.last = max(0, len(l.data)-bytes)
	return l, nil
}

// fits refuses a list that has more elements than the shape.
func (l *list) fits(most int64) error {
	if int64(l.n) > most {
		return fault(l.name, fmt.Sprintf("%d elements, or the first of them", most), fmt.Sprintf("%d elements", l.n))
	}
	return nil
}

// within is each of numbers from low to high, with the lowest bytes of each: an element of a half is its bits.
func within(name string, values []int32, most, low, high int64, bytes int) (list, error) {
	for i, v := range values {
		if int64(v) < low || int64(v) > high {
			return list{}, fault(fmt.Sprintf("%s[%d]", name, i), fmt.Sprintf("%d to %d", low, high), strconv.Itoa(int(v)))
		}
	}
	return each(name, values, most, func(b []byte, v int32) []byte {
		return append(b, little.AppendUint32(nil, uint32(v))[:bytes]...)
	})
}

// encode returns the message of an output, in tensor_content, or string_val for texts. It refers to the tensor.
func encode(t *tensor.Tensor) *tensorflow.TensorProto {
	m := &tensorflow.TensorProto{Dtype: dataTypes[t.DType], TensorShape: shapeMessage(t.Shape)}
	if t.DType != tensor.String {
		m.TensorContent = t.Data
		return m
	}
	for rest := t.Data; ; {
		element, after, ok := tensor.NextString(rest)
		if !ok {
			return m
		}
		m.StringVal, rest = append(m.StringVal, element), after
	}
}
