package weftclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Tensor is a dense array, as in the API. [FromSlice] makes one with raw elements. A caller that fills in a Tensor may
// also use the typed lists: the server rounds FloatValues for DATA_TYPE_FP16 and DATA_TYPE_BF16.
type Tensor = weftv1.Tensor

// Tensors are tensors by name.
type Tensors = map[string]*Tensor

// Element is a Go type of elements. Its kind decides the tensor's element type. A string may hold any bytes.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | string
}

// dtypes are the element types by the kind of the Go type.
var dtypes = map[reflect.Kind]weftv1.DataType{
	reflect.Bool: weftv1.DataType_DATA_TYPE_BOOL, reflect.String: weftv1.DataType_DATA_TYPE_STRING,
	reflect.Int8: weftv1.DataType_DATA_TYPE_INT8, reflect.Int16: weftv1.DataType_DATA_TYPE_INT16,
	reflect.Int32: weftv1.DataType_DATA_TYPE_INT32, reflect.Int64: weftv1.DataType_DATA_TYPE_INT64,
	reflect.Uint8: weftv1.DataType_DATA_TYPE_UINT8, reflect.Uint16: weftv1.DataType_DATA_TYPE_UINT16,
	reflect.Uint32: weftv1.DataType_DATA_TYPE_UINT32, reflect.Uint64: weftv1.DataType_DATA_TYPE_UINT64,
	reflect.Float32: weftv1.DataType_DATA_TYPE_FP32, reflect.Float64: weftv1.DataType_DATA_TYPE_FP64,
}

// halves are the element types without a Go type, with the function that converts the bits of an element to its value.
var halves = map[weftv1.DataType]func(bits uint16) float32{
	weftv1.DataType_DATA_TYPE_FP16: float16, weftv1.DataType_DATA_TYPE_BF16: bfloat16,
}

// FromSlice returns a tensor with a copy of the values, in row-major order. Without a shape it has one dimension. The
// server refuses the tensor if the product of the shape is not the number of values.
func FromSlice[T Element](values []T, shape ...int64) *Tensor {
	if len(shape) == 0 {
		shape = []int64{int64(len(values))}
	}
	return tensorOf(values, shape)
}

// Scalar returns a tensor without dimensions.
func Scalar[T Element](value T) *Tensor { return tensorOf([]T{value}, nil) }

// tensorOf returns a tensor with a copy of the values, raw except for strings. It keeps the shape.
func tensorOf[T Element](values []T, shape []int64) *Tensor {
	t := &Tensor{Dtype: dtypes[reflect.TypeFor[T]().Kind()], Shape: shape}
	if texts, is := any(values).([]string); is {
		for _, text := range texts {
			t.StringValues = append(t.StringValues, []byte(text))
		}
		return t
	}
	t.Raw, _ = binary.Append(nil, binary.LittleEndian, values) // elements have a fixed size
	return t
}

// Values returns the elements of a tensor with raw elements, as in answers, in row-major order. T is the Go type of the
// element type; float32 also reads DATA_TYPE_FP16 and DATA_TYPE_BF16. A nil tensor, such as an output that the model
// does not have, is an error.
func Values[T Element](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, errors.New("weftclient: there is no such tensor; look at the names of the model's outputs, and at " +
			"Request.Outputs")
	}
	values, err := read[T](t)
	if err != nil {
		return nil, fmt.Errorf("weftclient: %w", err)
	}
	elements := int64(1)
	for _, extent := range t.GetShape() {
		if extent < 0 {
			return nil, fmt.Errorf("weftclient: a tensor of shape %v; expected no negative sizes", t.GetShape())
		}
		elements *= extent
	}
	if int64(len(values)) != elements {
		return nil, fmt.Errorf("weftclient: a tensor of shape %v has %d elements, not %d; expected them raw, as "+
			"OUTPUT_ENCODING_RAW asks for", t.GetShape(), len(values), elements)
	}
	return values, nil
}

// read returns the elements of a tensor. It does not compare their number with the shape.
func read[T Element](t *Tensor) ([]T, error) {
	of, raw := reflect.TypeFor[T](), t.GetRaw()
	if value := halves[t.GetDtype()]; value != nil && of == reflect.TypeFor[float32]() {
		return any(widen(raw, value)).([]T), nil
	}
	if want := dtypes[of.Kind()]; t.GetDtype() != want {
		return nil, fmt.Errorf("a tensor of %v cannot be read as %v, which is for %v", t.GetDtype(), of, want)
	}
	if of.Kind() == reflect.String {
		texts := make([]string, 0, len(t.GetStringValues()))
		for _, text := range t.GetStringValues() {
			texts = append(texts, string(text))
		}
		return any(texts).([]T), nil
	}
	if len(raw)%int(of.Size()) != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of elements of %v", len(raw), t.GetDtype())
	}
	values := make([]T, len(raw)/int(of.Size()))
	_, err := binary.Decode(raw, binary.LittleEndian, values)
	return values, err
}

// widen returns the exact values of two-byte numbers.
func widen(raw []byte, value func(bits uint16) float32) []float32 {
	values := make([]float32, 0, len(raw)/2)
	for ; len(raw) >= 2; raw = raw[2:] {
		values = append(values, value(binary.LittleEndian.Uint16(raw)))
	}
	return values
}

// bfloat16 returns the value of a bfloat16, which is the upper half of a float32.
func bfloat16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// float16 returns the value of an IEEE 754 binary16: a sign, five bits of exponent (bias 15), ten bits of fraction. A
// float32 has a bias of 127 (112 more) and 13 more bits of fraction.
func float16(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits>>15)<<31, uint32(bits>>10&31), uint32(bits&0x3ff)
	switch exponent {
	case 0: // zero, or subnormal: a multiple of the least one, 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	default:
		return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
	}
}
