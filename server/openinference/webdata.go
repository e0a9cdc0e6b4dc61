package openinference

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/weigh"
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

// rawOf returns the elements of a list of JSON, which may be nested, as they are raw, of which there may be so many
// bytes.
func rawOf(field, datatype string, data json.RawMessage, most int, turn *weigh.Turn) ([]byte, error) {
	dtype := dtypeOf(datatype)
	if dtype == tensor.Invalid {
		return nil, nil // what is wrong with it is known when the model is
	}
	if len(data) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var raw []byte
	for n := 0; ; {
		const steps = 5 // as many as a token takes
		turn.Step(steps)
		if len(raw) > most {
			return nil, &status.MessageTooLargeError{Limit: most, Inflated: true}
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return raw, nil
		}
		if err != nil {
			return nil, &tensor.FieldError{Field: field, Want: "a list", Got: err.Error()}
		}
		if _, bracket := token.(json.Delim); bracket {
			if token == json.Delim('{') {
				return nil, &tensor.FieldError{Field: field, Want: "a list of elements, or of lists", Got: "an object"}
			}
			continue
		}
		var ok bool
		if raw, ok = appendElement(raw, dtype, token); !ok {
			return nil, &tensor.FieldError{
				Field: fmt.Sprintf("%s[%d]", field, n), Want: "an element of " + datatype, Got: fmt.Sprint(token),
			}
		}
		n++
	}
}

// appendElement appends an element, and reports whether the type has it.
func appendElement(raw []byte, dtype tensor.DType, token json.Token) ([]byte, bool) {
	switch v := token.(type) {
	case bool:
		if dtype != tensor.Bool {
			return raw, false
		}
		if v {
			return append(raw, 1), true
		}
		return append(raw, 0), true
	case string:
		return tensor.AppendString(raw, []byte(v)), dtype == tensor.String
	case json.Number:
		return appendNumber(raw, dtype, v.String())
	}
	return raw, false
}

func appendNumber(raw []byte, dtype tensor.DType, text string) ([]byte, bool) {
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat():
		x, err := strconv.ParseFloat(text, max(32, bits))
		half := tensor.Float16Bits(float32(x))
		switch dtype {
		case tensor.Float16:
			return little.AppendUint16(raw, half), err == nil && !math.IsInf(float64(tensor.Float16Value(half)), 0)
		case tensor.BFloat16:
			half = tensor.BFloat16Bits(float32(x))
			return little.AppendUint16(raw, half), err == nil && !math.IsInf(float64(tensor.BFloat16Value(half)), 0)
		case tensor.Float32:
			return little.AppendUint32(raw, math.Float32bits(float32(x))), err == nil
		default:
			return little.AppendUint64(raw, math.Float64bits(x)), err == nil
		}
	case dtype >= tensor.Int8 && dtype <= tensor.Int64:
		n, err := strconv.ParseInt(text, 10, bits)
		return append(raw, little.AppendUint64(nil, uint64(n))[:bits/8]...), err == nil
	case dtype >= tensor.Uint8 && dtype <= tensor.Uint64:
		n, err := strconv.ParseUint(text, 10, bits)
		return append(raw, little.AppendUint64(nil, n)[:bits/8]...), err == nil
	case dtype == tensor.Bool && (text == "0" || text == "1"):
		return append(raw, text[0]-'0'), true
	}
	return raw, false
}

// dataOf returns raw elements as a list of JSON.
func dataOf(output, datatype string, raw []byte, turn *weigh.Turn) (json.RawMessage, error) {
	without := func(what string) error {
		return &status.UnsupportedError{
			What:    "output " + routing.Quote(output) + " in JSON, with " + what,
			Instead: "ask for it with the parameter binary_data",
		}
	}
	dtype := dtypeOf(datatype)
	out := []byte{'['}
	for len(raw) > 0 {
		const steps = 3 // as many as an element takes
		turn.Step(steps)
		if len(out) > 1 {
			out = append(out, ',')
		}
		if dtype == tensor.String {
			text, rest, ok := tensor.NextString(raw)
			if !ok || !utf8.Valid(text) {
				return nil, without("bytes that are no text")
			}
			quoted, err := json.Marshal(string(text))
			if err != nil {
				return nil, err
			}
			out, raw = append(out, quoted...), rest
			continue
		}
		var ok bool
		if out, ok = appendValue(out, dtype, raw); !ok {
			return nil, without("a number that JSON does not have")
		}
		raw = raw[dtype.Size():]
	}
	return append(out, ']'), nil
}

// appendValue appends the first element, and reports whether JSON has it.
func appendValue(out []byte, dtype tensor.DType, raw []byte) ([]byte, bool) {
	if dtype.IsFloat() {
		x := floatOf(dtype, raw)
		return strconv.AppendFloat(out, x, 'g', -1, 8*max(4, dtype.Size())), !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	switch dtype {
	case tensor.Bool:
		return strconv.AppendBool(out, raw[0] != 0), true
	case tensor.Int8:
		return strconv.AppendInt(out, int64(int8(raw[0])), 10), true
	case tensor.Int16:
		return strconv.AppendInt(out, int64(int16(little.Uint16(raw))), 10), true
	case tensor.Int32:
		return strconv.AppendInt(out, int64(int32(little.Uint32(raw))), 10), true
	case tensor.Int64:
		return strconv.AppendInt(out, int64(little.Uint64(raw)), 10), true
	case tensor.Uint8:
		return strconv.AppendUint(out, uint64(raw[0]), 10), true
	case tensor.Uint16:
		return strconv.AppendUint(out, uint64(little.Uint16(raw)), 10), true
	case tensor.Uint32:
		return strconv.AppendUint(out, uint64(little.Uint32(raw)), 10), true
	default:
		return strconv.AppendUint(out, little.Uint64(raw), 10), true
	}
}

// floatOf returns the first element of a type of floats.
func floatOf(dtype tensor.DType, raw []byte) float64 {
	switch dtype {
	case tensor.Float16:
		return float64(tensor.Float16Value(little.Uint16(raw)))
	case tensor.BFloat16:
		return float64(tensor.BFloat16Value(little.Uint16(raw)))
	case tensor.Float32:
		return float64(math.Float32frombits(little.Uint32(raw)))
	default:
		return math.Float64frombits(little.Uint64(raw))
	}
}
