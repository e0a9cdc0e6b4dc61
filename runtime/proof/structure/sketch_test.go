package structure_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// A sketch is a model in a line of text, such as
//
//	opset 11; x[N,4] s:int64[]; y = MatMul(x, <4,3>); a, _ = TopK{axis=1}(y, [2]); Relu(a), s
//
// Statements end with a semicolon: an operator set, the inputs (float where no type is given; N is the dimension of
// rows, another letter an open dimension), assignments, and at the end the outputs. Values are 7 (int64), 1.5 (float),
// [1,2] (int64), f[1,2], <4,3> (random floats of that shape), and of other types u8<4,3>, u8[1,2], u8(3); _ leaves an
// input out. Attributes stand in braces; body=(a,b:i64[])=>(e, f) is a graph.
type sketch struct {
	text   string
	opset  int64
	inputs []sketchInput
	graph  *onnxgraph.Graph
	outs   []string
	axes   map[string]int
	nodes  int
	ops    []string // that were used
}

type sketchInput struct {
	name  string
	dtype onnxgraph.DType
	dims  []string
	axis  int // of rows; -1: none
}

var sketchTypes = map[string]onnxgraph.DType{
	"float": onnxgraph.Float, "f": onnxgraph.Float, "double": onnxgraph.Double, "half": onnxgraph.Float16,
	"int64": onnxgraph.Int64,
	"i64":   onnxgraph.Int64, "int32": onnxgraph.Int32, "i32": onnxgraph.Int32, "u32": onnxgraph.Uint32,
	"u16": onnxgraph.Uint16,
	"i16": onnxgraph.Int16, "u8": onnxgraph.Uint8, "i8": onnxgraph.Int8,
	"bool": onnxgraph.Bool, "b": onnxgraph.Bool, "string": onnxgraph.String,
}

// parser reads a sketch into the graph g, which is the sketch's or that of a body.
type parser struct {
	s    *sketch
	g    *onnxgraph.Graph
	rest string
	rng  *rand.Rand
	deep bool
}

// parseSketch reads a sketch; a mistake in it is an error.
func parseSketch(text string) (s *sketch, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(parseFault); !ok {
				panic(r)
			}
			err = fmt.Errorf("%s: %v", text, r)
		}
	}()
	s = &sketch{text: text, opset: 17, axes: map[string]int{}}
	p := &parser{s: s, rest: text, rng: rand.New(rand.NewPCG(7, 7))}
	if p.word("opset") {
		s.opset, _ = strconv.ParseInt(p.token(), 10, 64)
		p.want(";")
	}
	s.graph = onnxgraph.New("g").Opset("", s.opset).Opset("com.microsoft", 1).Opset("ai.onnx.ml", 3)
	if s.opset > 21 {
		s.graph.IRVersion(11)
	} else if s.opset > 18 {
		s.graph.IRVersion(9)
	}
	p.g = s.graph
	for !p.at(";") {
		p.input()
	}
	p.want(";")
	s.outs = p.statements()
	for _, out := range s.outs {
		s.graph.AnyOutput(out)
	}
	return s, nil
}

type parseFault string

func (p *parser) fail(format string, args ...any) {
	panic(parseFault(fmt.Sprintf(format, args...) + " before " + strconv.Quote(p.rest)))
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \n\t") }

func (p *parser) at(s string) bool { p.space(); return strings.HasPrefix(p.rest, s) }

func (p *parser) eat(s string) bool {
	if p.at(s) {
		p.rest = p.rest[len(s):]
		return true
	}
	return false
}

func (p *parser) want(s string) {
	if !p.eat(s) {
		p.fail("expected %q", s)
	}
}

// word eats a whole word.
func (p *parser) word(s string) bool {
	return p.at(s+" ") && p.eat(s)
}

// token reads a name or a number.
func (p *parser) token() string {
	p.space()
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return !(r == '_' || r == '.' || r == '-' || r == '+' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z')
	})
	if n < 0 {
		n = len(p.rest)
	}
	if n == 0 {
		p.fail("expected a name or a number")
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t
}

func (p *parser) list(open, end string) []string {
	p.want(open)
	list := []string{}
	for !p.eat(end) {
		if p.at(`"`) {
			list = append(list, p.quoted())
		} else {
			list = append(list, p.token())
		}
		p.eat(",")
	}
	return list
}

func (p *parser) quoted() string {
	p.want(`"`)
	s, rest, ok := strings.Cut(p.rest, `"`)
	if !ok {
		p.fail("a quote is open")
	}
	p.rest = rest
	return s
}

func (p *parser) input() {
	in := sketchInput{name: p.token(), dtype: onnxgraph.Float, axis: -1}
	if p.eat(":") {
		name := p.token()
		var ok bool
		if in.dtype, ok = sketchTypes[name]; !ok {
			p.fail("no type %s", name)
		}
	}
	in.dims = p.list("[", "]")
	var dims []any
	for at, d := range in.dims {
		if d == "N" {
			in.axis = at
			p.s.axes[in.name] = at
		}
		if n, err := strconv.Atoi(d); err == nil {
			dims = append(dims, n)
		} else {
			dims = append(dims, d)
		}
	}
	p.s.graph.Input(in.name, in.dtype, dims...)
	p.s.inputs = append(p.s.inputs, in)
}

// statements reads assignments, and returns the names of the outputs at the end.
func (p *parser) statements() []string {
	for {
		before := p.rest
		names := p.names()
		if names == nil || !p.eat("=") {
			p.rest = before
			return p.expressions()
		}
		p.node(names)
		p.want(";")
	}
}

// names reads the left side of an assignment; nil: it is none.
func (p *parser) names() []string {
	var names []string
	for {
		p.space()
		if p.rest == "" || !strings.ContainsAny(p.rest[:1], "abcdefghijklmnopqrstuvwxyz_") {
			return nil
		}
		names = append(names, p.token())
		if !p.eat(",") {
			return names
		}
	}
}

func (p *parser) expressions() []string {
	var list []string
	for {
		list = append(list, p.expression(true))
		if !p.eat(",") {
			return list
		}
	}
}

// expression reads a value. An output of a body must be computed in it.
func (p *parser) expression(output bool) string {
	p.space()
	switch {
	case p.rest == "":
		p.fail("expected a value")
	case strings.ContainsAny(p.rest[:1], "[<\"") || strings.ContainsAny(p.rest[:1], "-0123456789"):
		return p.constant(onnxgraph.Int64)
	}
	before := p.rest
	name := p.token()
	if name == "_" {
		return ""
	}
	if dtype, ok := sketchTypes[name]; ok && p.rest != "" && strings.ContainsAny(p.rest[:1], "[<(") {
		return p.constant(dtype)
	}
	if p.at("(") || p.at("{") {
		p.rest = before
		return p.node(nil)[0]
	}
	if output && p.deep {
		return p.add("", "Identity", []string{name}, 1, nil)[0]
	}
	return name
}

func (p *parser) node(outs []string) []string {
	domain, op := "", p.token()
	if d, rest, ok := strings.Cut(op, "."); ok {
		domain, op = map[string]string{"ms": "com.microsoft", "ml": "ai.onnx.ml"}[d], rest
	}
	p.s.ops = append(p.s.ops, op)
	var attrs []onnxgraph.Attr
	if p.eat("{") {
		for !p.eat("}") {
			attrs = append(attrs, p.attribute())
			p.eat(",")
		}
	}
	p.want("(")
	var ins []string
	for !p.eat(")") {
		ins = append(ins, p.expression(false))
		p.eat(",")
	}
	if outs == nil {
		return p.add(domain, op, ins, 1, attrs)
	}
	for i, name := range outs {
		if name == "_" {
			outs[i] = ""
		}
	}
	p.g.DomainNode(domain, op, ins, outs, attrs...)
	return outs
}

func (p *parser) add(domain, op string, ins []string, n int, attrs []onnxgraph.Attr) []string {
	var outs []string
	for range n {
		p.s.nodes++
		outs = append(outs, fmt.Sprintf("t%d", p.s.nodes))
	}
	p.g.DomainNode(domain, op, ins, outs, attrs...)
	return outs
}

func (p *parser) attribute() onnxgraph.Attr {
	name := p.token()
	p.want("=")
	switch {
	case p.at("("):
		inner := &parser{s: p.s, g: onnxgraph.New("body"), rest: p.rest, rng: p.rng, deep: true}
		inner.want("(")
		for !inner.eat(")") {
			name, dtype := inner.token(), onnxgraph.Float
			if inner.eat(":") {
				dtype = sketchTypes[inner.token()]
			}
			if inner.eat("[]") {
				inner.g.Input(name, dtype)
			} else {
				inner.g.UnshapedInput(name, dtype)
			}
			inner.eat(",")
		}
		inner.want("=>")
		inner.want("(")
		for _, out := range inner.statements() {
			inner.g.AnyOutput(out)
		}
		p.rest = inner.rest
		p.want(")")
		return onnxgraph.GraphAttr(name, inner.g)
	case p.at(`"`):
		return onnxgraph.StringAttr(name, p.quoted())
	case p.at("["):
		list := p.list("[", "]")
		if len(list) > 0 && strings.Contains(list[0], ".") {
			return onnxgraph.FloatsAttr(name, floatsOf(list)...)
		}
		ints := make([]int64, 0, len(list))
		for _, e := range list {
			n, err := strconv.ParseInt(e, 10, 64)
			if err != nil {
				return onnxgraph.StringsAttr(name, list...)
			}
			ints = append(ints, n)
		}
		return onnxgraph.IntsAttr(name, ints...)
	}
	number := p.token()
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return onnxgraph.IntAttr(name, n)
	}
	f, err := strconv.ParseFloat(number, 32)
	if err != nil {
		p.fail("%s is no number", number)
	}
	return onnxgraph.FloatAttr(name, float32(f))
}

func floatsOf(list []string) []float32 {
	out := make([]float32, 0, len(list))
	for _, e := range list {
		f, _ := strconv.ParseFloat(e, 32)
		out = append(out, float32(f))
	}
	return out
}

// constant reads a value of the given type, and adds it to the model's weights.
func (p *parser) constant(dtype onnxgraph.DType) string {
	p.s.nodes++
	name := fmt.Sprintf("c%d", p.s.nodes)
	shape := []int64{}
	var values []string
	switch {
	case p.at(`"`):
		p.s.graph.InitStrings(name, nil, p.quoted())
		return name
	case p.at("<"):
		if dtype == onnxgraph.Int64 {
			dtype = onnxgraph.Float
		}
		n := 1
		for _, d := range p.list("<", ">") {
			size, _ := strconv.Atoi(d)
			shape = append(shape, int64(size))
			n *= size
		}
		for range n {
			values = append(values, p.random(dtype))
		}
	case p.at("["):
		values = p.list("[", "]")
		shape = append(shape, int64(len(values)))
	case p.at("("):
		values = p.list("(", ")")
	default:
		values = []string{p.token()}
		if strings.Contains(values[0], ".") {
			dtype = onnxgraph.Float
		}
	}
	var raw []byte
	for _, v := range values {
		raw = append(raw, encoded(dtype, v)...)
	}
	p.s.graph.Init(name, dtype, shape, raw)
	return name
}

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
