package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/tensor"
)

// constant reads a value of the given type, and adds it to the weights of the model. Bodies see them too, since a graph
// within sees the names of the graph around it.
func (p *parser) constant(dtype onnxgraph.DType) string {
	p.s.nodes++
	name := fmt.Sprintf("c%d", p.s.nodes)
	v := p.value(dtype)
	if v.DType == onnxgraph.String {
		p.s.Graph.InitStrings(name, v.Shape, v.Strings...)
	} else {
		p.s.Graph.Init(name, v.DType, v.Shape, v.Raw)
	}
	return name
}

// Value is a tensor of numbers or strings.
type Value struct {
	DType   onnxgraph.DType
	Shape   []int64
	Raw     []byte
	Strings []string
}

// unnamed is the type of a value whose text names none: a decimal point, quotation marks or random values decide it.
const unnamed onnxgraph.DType = 0

// value reads a value of a type. A shape without numbers has random ones; with fewer numbers than elements it repeats
// them.
func (p *parser) value(dtype onnxgraph.DType) Value {
	v := Value{DType: dtype, Shape: []int64{}}
	var values []string
	switch {
	case p.at(`"`):
		v.DType = onnxgraph.String
		values = []string{p.quoted()}
	case p.at("<"):
		if dtype == unnamed {
			v.DType = onnxgraph.Float
		}
		n := 1
		for _, d := range p.list("<", ">") {
			size, _ := strconv.Atoi(d)
			v.Shape = append(v.Shape, int64(size))
			n *= size
		}
		var given []string
		// No blank may stand between: behind a blank another value could begin.
		if strings.HasPrefix(p.rest, "[") {
			given = p.list("[", "]")
		}
		for i := range n {
			if len(given) > 0 {
				values = append(values, given[i%len(given)])
			} else {
				values = append(values, p.random(v.DType))
			}
		}
	case p.at("["):
		values = p.list("[", "]")
		v.Shape = append(v.Shape, int64(len(values)))
	// Parentheses hold a scalar.
	case p.at("("):
		values = p.list("(", ")")
	default:
		values = []string{p.token()}
		if strings.Contains(values[0], ".") {
			v.DType = onnxgraph.Float
		}
	}
	if v.DType == unnamed {
		v.DType = onnxgraph.Int64
	}
	if v.DType == onnxgraph.String {
		v.Strings = values
		return v
	}
	for _, text := range values {
		v.Raw = append(v.Raw, Encoded(v.DType, text)...)
	}
	return v
}

// random returns a number of the type. Integers are from 0 to 2, and so valid as indices of most dimensions.
func (p *parser) random(dtype onnxgraph.DType) string {
	switch dtype {
	case onnxgraph.Float, onnxgraph.Double, onnxgraph.Float16:
		return strconv.FormatFloat(p.rng.NormFloat64(), 'g', 5, 32)
	case onnxgraph.Bool:
		return strconv.Itoa(p.rng.IntN(2))
	default:
		return strconv.Itoa(p.rng.IntN(3))
	}
}

// floatsOf reads floats; what is no number is 0.
func floatsOf(list []string) []float32 {
	out := make([]float32, 0, len(list))
	for _, e := range list {
		f, _ := strconv.ParseFloat(e, 32)
		out = append(out, float32(f))
	}
	return out
}

// Encoded returns one number as a tensor holds it. "nan" and "inf" are numbers of floating point types.
func Encoded(dtype onnxgraph.DType, number string) []byte {
	// A large int64 keeps all its digits, since it is not read as a float.
	f, _ := strconv.ParseFloat(number, 64)
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		n = int64(f)
	}
	switch dtype {
	case onnxgraph.Float:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
	case onnxgraph.Double:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	case onnxgraph.Float16:
		return binary.LittleEndian.AppendUint16(nil, tensor.Float16Bits(float32(f)))
	case onnxgraph.Int64, onnxgraph.Uint64:
		return binary.LittleEndian.AppendUint64(nil, uint64(n))
	case onnxgraph.Int32, onnxgraph.Uint32:
		return binary.LittleEndian.AppendUint32(nil, uint32(n))
	case onnxgraph.Int16, onnxgraph.Uint16:
		return binary.LittleEndian.AppendUint16(nil, uint16(n))
	default:
		return []byte{byte(n)}
	}
}

// ParseValues reads inputs of a model, such as x=f<2,3>[1,-inf] ids=i64[7], by name.
func ParseValues(text string) (values map[string]Value, err error) {
	defer func() { err = caught(text, recover(), err) }()
	p := &parser{s: &Model{}, rest: text, rng: newRand()}
	values = map[string]Value{}
	for p.space(); p.rest != ""; p.space() {
		name := p.token()
		p.want("=")
		before := p.rest
		dtype, known := Types[p.token()]
		// An input always names its type: there is no model at hand to take it from.
		if !known || p.rest == "" || !strings.ContainsAny(p.rest[:1], "[<(") {
			p.rest = before
			p.fail("expected a value with its type")
		}
		values[name] = p.value(dtype)
	}
	return values, nil
}
