package openinference

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
)

var little = binary.LittleEndian

// dtypeOf returns the element type of a datatype; tensor.Invalid: there is none of that name.
func dtypeOf(name string) tensor.DType {
	for d := range datatypes {
		if datatypes[d].name == name && name != "" {
			return tensor.DType(d)
		}
	}
	return tensor.Invalid
}

// decodeList reads an input from the JSON that it came in. That was checked when the body was read; how its elements
// are written is looked at here, since the type is the model's. The data are the request's until letGo.
func (r *request) decodeList(spec *tensor.Spec, in *input, shape tensor.Shape) (tensor.Tensor, error) {
	count, err := predict.Elements(spec, shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if int64(in.list.count) != count {
		return tensor.Tensor{}, &tensor.FieldError{
			Field: "data", Want: fmt.Sprintf("%d elements (shape %v of %v)", count, tensor.Shape(in.GetShape()), spec.DType),
			Got: fmt.Sprintf("%d elements", in.list.count),
		}
	}
	var turn protect.Turn
	defer turn.End()
	if len(in.list.text) > smallBody {
		turn.Begin()
	}
	data := r.house.Memory.Get(in.list.bytes(spec.DType)) // enough, so that appending does not move it
	r.copies = append(r.copies, data)
	if *data, err = appendList((*data)[:0], spec.DType, &in.list, &turn); err != nil {
		return tensor.Tensor{}, err
	}
	return tensor.Tensor{DType: spec.DType, Shape: shape, Data: *data}, nil
}

// appendList appends the elements of a list of JSON, which is sound, as a tensor of that type has them. The error is a
// *tensor.FieldError that names the element by its index among all.
func appendList(raw []byte, dtype tensor.DType, l *list, turn *protect.Turn) ([]byte, error) {
	s, n := scanner{text: l.text, turn: turn}, 0
	err := s.elements(func() error {
		kind := s.kind()
		text, err := s.scalar()
		if err != nil {
			return err
		}
		var ok bool
		if raw, ok = appendElement(raw, dtype, kind, text); !ok {
			// The error repeats a number or a text as it came.
			got := kinds[kind]
			switch kind {
			case aNumber:
				got += " " + routing.Quote(string(text))
			case '"':
				got += " " + routing.Quote(textOf(text))
			}
			return &tensor.FieldError{Field: fmt.Sprintf("[%d]", n), Want: "an element of " + datatype(dtype), Got: got}
		}
		n++
		return nil
	})
	return raw, inPart("data", err)
}

// appendElement appends an element, and reports whether the type has it. kind is what scanner.kind said of the element,
// and text what scalar returned.
func appendElement(raw []byte, dtype tensor.DType, kind byte, text []byte) ([]byte, bool) {
	switch {
	case kind == aNumber:
		return appendNumber(raw, dtype, text)
	case dtype == tensor.String && kind == '"':
		begin := len(raw)
		raw = appendText(append(raw, 0, 0, 0, 0), text) // the length, which is known afterwards
		little.PutUint32(raw[begin:], uint32(len(raw)-begin-4))
		return raw, true
	case dtype == tensor.Bool && kind == 't':
		return append(raw, 1), true
	}
	return append(raw, 0), dtype == tensor.Bool && kind == 'f'
}

// appendNumber appends a number of JSON as an element, and reports whether the type can hold it. Whole numbers must be
// written as such: 1.0 is none. 0 and 1 are bools, too.
func appendNumber(raw []byte, dtype tensor.DType, text []byte) ([]byte, bool) {
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat():
		x, err := strconv.ParseFloat(string(text), max(32, bits))
		half := tensor.Float16Bits(float32(x))
		// A number that is too large for a half would become infinity: it is refused, unless it is infinity.
		fits := func(to float64) bool { return err == nil && math.IsInf(to, 0) == math.IsInf(x, 0) }
		switch dtype {
		case tensor.Float16:
			return little.AppendUint16(raw, half), fits(float64(tensor.Float16Value(half)))
		case tensor.BFloat16:
			half = tensor.BFloat16Bits(float32(x))
			return little.AppendUint16(raw, half), fits(float64(tensor.BFloat16Value(half)))
		case tensor.Float32:
			return little.AppendUint32(raw, math.Float32bits(float32(x))), err == nil
		default:
			return little.AppendUint64(raw, math.Float64bits(x)), err == nil
		}
	case isSigned(dtype):
		n, err := strconv.ParseInt(string(text), 10, bits)
		return appendInteger(raw, bits, uint64(n)), err == nil
	case dtype >= tensor.Uint8 && dtype <= tensor.Uint64:
		n, err := strconv.ParseUint(string(text), 10, bits)
		return appendInteger(raw, bits, n), err == nil
	case dtype == tensor.Bool && len(text) == 1 && text[0] <= '1':
		return append(raw, text[0]-'0'), true
	}
	return raw, false
}

// appendInteger appends the lowest bits of a number, in little endian.
func appendInteger(raw []byte, bits int, n uint64) []byte {
	for ; bits > 0; bits -= 8 {
		raw, n = append(raw, byte(n)), n>>8
	}
	return raw
}
