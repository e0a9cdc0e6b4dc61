package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseElement returns the element of type d that a text such as "-1", "0.5", "true", ".inf" or, for strings, any text
// stands for, as Tensor.Data holds it. The empty text is 0, false or the empty string. Floating point numbers are
// rounded to the nearest that the type has; the error is about those beyond its range, and about texts that are no such
// element.
func ParseElement(d DType, text string) ([]byte, error) {
	if d == String {
		return AppendString(nil, []byte(text)), nil
	}
	if text == "" {
		return make([]byte, d.Size()), nil
	}
	switch d {
	case Bool:
		switch text {
		case "true", "1":
			return []byte{1}, nil
		case "false", "0":
			return []byte{0}, nil
		}
		return nil, fmt.Errorf("expected true or false, found %q", text)
	case Float16, BFloat16, Float32, Float64:
		return parseFloat(d, text)
	case Int8, Int16, Int32, Int64:
		n, err := strconv.ParseInt(text, 10, 8*d.Size())
		if err != nil {
			return nil, fmt.Errorf("expected a whole number that %v holds, found %q", d, text)
		}
		return littleEndian(uint64(n), d.Size()), nil
	case Uint8, Uint16, Uint32, Uint64:
		n, err := strconv.ParseUint(text, 10, 8*d.Size())
		if err != nil {
			return nil, fmt.Errorf("expected a whole number from 0 on that %v holds, found %q", d, text)
		}
		return littleEndian(n, d.Size()), nil
	default:
		return nil, fmt.Errorf("element type %v has no values", d)
	}
}

func parseFloat(d DType, text string) ([]byte, error) {
	// YAML writes .inf and .nan.
	v, err := strconv.ParseFloat(strings.Replace(strings.ToLower(text), ".inf", "inf", 1), 64)
	if strings.EqualFold(text, ".nan") {
		v, err = math.NaN(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("expected a number, found %q", text)
	}
	var bits uint64
	var held float64
	switch short := float32(v); d {
	case Float16:
		h := Float16Bits(short)
		bits, held = uint64(h), float64(Float16Value(h))
	case BFloat16:
		b := BFloat16Bits(short)
		bits, held = uint64(b), float64(BFloat16Value(b))
	case Float32:
		bits, held = uint64(math.Float32bits(short)), float64(short)
	default:
		bits, held = math.Float64bits(v), v
	}
	if math.IsInf(held, 0) && !math.IsInf(v, 0) {
		return nil, fmt.Errorf("%s is beyond the range of %v", text, d)
	}
	return littleEndian(bits, d.Size()), nil
}

// littleEndian returns the size lowest bytes of n.
func littleEndian(n uint64, size int) []byte {
	return binary.LittleEndian.AppendUint64(nil, n)[:size:size]
}
