package web

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

// Listable refuses an output of texts that are not UTF-8: JSON cannot have them. The error is a
// *status.UnsupportedError. It is asked before the first byte of the answer is written.
func Listable(output string, dtype tensor.DType, raw []byte) error {
	for dtype == tensor.String && len(raw) > 0 {
		text, rest, ok := tensor.NextString(raw)
		if !ok || !utf8.Valid(text) {
			return &status.UnsupportedError{
				What:    "output " + routing.Quote(output) + " in JSON, with bytes that are no text",
				Instead: "ask for it with the parameter binary_data",
			}
		}
		raw = rest
	}
	return nil
}

// WriteList writes raw elements, which are Listable, as one flat list of JSON.
func WriteList(to *bufio.Writer, dtype tensor.DType, raw []byte, turn *protect.Turn) {
	_ = to.WriteByte('[') // Flush has the error
	for first := true; len(raw) > 0; first = false {
		const steps = 3 // as many as an element takes
		turn.Step(steps)
		if !first {
			_ = to.WriteByte(',')
		}
		if dtype == tensor.String {
			text, rest, _ := tensor.NextString(raw)
			writeText(to, text)
			raw = rest
			continue
		}
		_, _ = to.Write(AppendValue(to.AvailableBuffer(), dtype, raw))
		raw = raw[dtype.Size():]
	}
	_ = to.WriteByte(']')
}

// writeText writes a text in quotes, and escapes only what JSON demands.
func writeText(to *bufio.Writer, text []byte) {
	_ = to.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			_ = to.WriteByte('\\')
			_ = to.WriteByte(c)
		case c == '\n':
			_, _ = to.WriteString(`\n`)
		case c < ' ':
			const hex = "0123456789abcdef"
			_, _ = to.WriteString(`\u00`)
			_ = to.WriteByte(hex[c>>4])
			_ = to.WriteByte(hex[c&0xf])
		default:
			_ = to.WriteByte(c)
		}
	}
	_ = to.WriteByte('"')
}

// AppendValue appends the first element of raw as JSON has it. A float has as many digits as it takes to read the same
// float again. NaN and infinities, which JSON does not have, are as Triton writes them and Python's json reads them.
func AppendValue(out []byte, dtype tensor.DType, raw []byte) []byte {
	if dtype.IsFloat() {
		switch x := FloatOf(dtype, raw); {
		case math.IsInf(x, 1):
			return append(out, "Infinity"...)
		case math.IsInf(x, -1):
			return append(out, "-Infinity"...)
		default:
			return strconv.AppendFloat(out, x, 'g', -1, 8*max(4, dtype.Size())) // halves as singles
		}
	}
	switch n := WholeOf(dtype, raw); {
	case dtype == tensor.Bool:
		return strconv.AppendBool(out, n != 0)
	case IsSigned(dtype):
		return strconv.AppendInt(out, int64(n), 10)
	default:
		return strconv.AppendUint(out, n, 10)
	}
}

// WholeOf returns the first element of a type of whole numbers, or of bools, in 64 bits: with its sign if the type has
// one.
func WholeOf(dtype tensor.DType, raw []byte) uint64 {
	var eight [8]byte
	size := copy(eight[:], raw[:dtype.Size()])
	n := little.Uint64(eight[:])
	if above := 64 - 8*size; IsSigned(dtype) {
		return uint64(int64(n<<above) >> above) // the sign goes into the bits above
	}
	return n
}

// IsSigned reports whether a type is of whole numbers with a sign.
func IsSigned(d tensor.DType) bool { return d >= tensor.Int8 && d <= tensor.Int64 }

// FloatOf returns the first element of a type of floats.
func FloatOf(dtype tensor.DType, raw []byte) float64 {
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

// WriteNested writes the first elements of raw as lists within each other, as the shape has them, and returns the
// others. Texts that are not UTF-8, or all if so asked, are objects of the member "b64".
func WriteNested(
	to *bufio.Writer, dtype tensor.DType, shape tensor.Shape, raw []byte, bytes bool, turn *protect.Turn,
) []byte {
	if len(shape) == 0 {
		turn.Step(3)
		if dtype != tensor.String {
			_, _ = to.Write(AppendValue(to.AvailableBuffer(), dtype, raw))
			return raw[dtype.Size():]
		}
		text, rest, _ := tensor.NextString(raw)
		if bytes || !utf8.Valid(text) {
			_, _ = to.WriteString(`{"b64":"`)
			encoder := base64.NewEncoder(base64.StdEncoding, to)
			_, _ = encoder.Write(text)
			_ = encoder.Close()
			_, _ = to.WriteString(`"}`)
		} else {
			writeText(to, text)
		}
		return rest
	}
	_ = to.WriteByte('[')
	for i := range shape[0] {
		if i > 0 {
			_ = to.WriteByte(',')
		}
		raw = WriteNested(to, dtype, shape[1:], raw, bytes, turn)
	}
	_ = to.WriteByte(']')
	return raw
}

// AppendQuoted appends a text as JSON has it.
func AppendQuoted[Text string | []byte](to []byte, text Text) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\':
			quoted, _ := json.Marshal(string(text)) //nolint:errchkjson // a text always is JSON
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}
