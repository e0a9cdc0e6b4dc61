// Package sketch reads models written as a line of text, for tests that need many small ones.
//
//	opset 11; x[N,4] s:int64[]; y = MatMul(x, <4,3>); a, _ = TopK{axis=1}(y, [2]); Relu(a), s
//
// Statements end with a semicolon: an operator set, the inputs (float where no type is given; N is the dimension of
// rows, another letter an open dimension), assignments, and at the end the outputs. Values are 7 (int64), 1.5 (float),
// [1,2] (int64), f[1,2], <4,3> (random floats of that shape), <4,3>[1,2] (those numbers, again and again), and of other
// types u8<4,3>, u8[1,2], u8(3); _ leaves an input out. Attributes stand in braces; body=(a,b:i64[])=>(e, f) is a
// graph.
package sketch

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// Model is a model that was read from its sketch.
type Model struct {
	Opset  int64
	Graph  *onnxgraph.Graph
	Inputs []Input
	Axes   map[string]int // of rows, by input
	Ops    []string       // that were used

	// nodes counts the names that were made, of constants and of unnamed results.
	nodes int
}

// Input is an input of a model.
type Input struct {
	Name  string
	DType onnxgraph.DType
	Dims  []string
	Axis  int // of rows; -1: none
}

// Types are the element types by their names in sketches.
var Types = map[string]onnxgraph.DType{
	"float": onnxgraph.Float, "f": onnxgraph.Float, "double": onnxgraph.Double, "half": onnxgraph.Float16,
	"int64": onnxgraph.Int64,
	"i64":   onnxgraph.Int64, "int32": onnxgraph.Int32, "i32": onnxgraph.Int32, "u32": onnxgraph.Uint32,
	"u16": onnxgraph.Uint16, "u64": onnxgraph.Uint64,
	"i16": onnxgraph.Int16, "u8": onnxgraph.Uint8, "i8": onnxgraph.Int8,
	"bool": onnxgraph.Bool, "b": onnxgraph.Bool, "string": onnxgraph.String,
}

// parser reads a sketch into the graph g: the sketch's own or, if deep, that of a body. A body's parser shares the
// model and the random numbers, and takes the rest of the text over and back. Faults panic, and caught makes errors of
// them.
type parser struct {
	s    *Model
	g    *onnxgraph.Graph
	rest string
	rng  *rand.Rand
	deep bool
}

// Parse reads a sketch. A mistake in it is an error, with the text from which on it was not understood.
func Parse(text string) (s *Model, err error) {
	defer func() { err = caught(text, recover(), err) }()
	s = &Model{Opset: 17, Axes: map[string]int{}}
	p := &parser{s: s, rest: text, rng: newRand()}
	if p.word("opset") {
		s.Opset, _ = strconv.ParseInt(p.token(), 10, 64)
		p.want(";")
	}
	s.Graph = onnxgraph.New("g").Opset("", s.Opset).Opset("com.microsoft", 1).Opset("ai.onnx.ml", 3)
	// Newer operator sets need a newer version of the file format.
	if s.Opset > 21 {
		s.Graph.IRVersion(11)
	} else if s.Opset > 18 {
		s.Graph.IRVersion(9)
	}
	p.g = s.Graph
	for !p.at(";") {
		p.input()
	}
	p.want(";")
	for _, out := range p.statements() {
		s.Graph.AnyOutput(out)
	}
	return s, nil
}

// parseFault is a mistake in the text, on its way to caught.
type parseFault string

// caught turns a recovered fault in the text into an error. It panics again with anything else: that is a mistake here.
func caught(text string, recovered any, err error) error {
	switch fault := recovered.(type) {
	case nil:
		return err
	case parseFault:
		return fmt.Errorf("%s: %s", text, fault)
	default:
		panic(recovered)
	}
}

// newRand returns the source of random values. Its seed is fixed, so that a sketch is the same model each time.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }

// fail ends the parser with a fault, by a panic that Parse takes.
func (p *parser) fail(format string, args ...any) {
	panic(parseFault(fmt.Sprintf(format, args...) + " before " + strconv.Quote(p.rest)))
}

// space skips blanks. All functions below skip them before what they read.
func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \n\t") }

// at reports whether the rest begins with s.
func (p *parser) at(s string) bool { p.space(); return strings.HasPrefix(p.rest, s) }

// eat skips s, if the rest begins with it, and reports whether it did.
func (p *parser) eat(s string) bool {
	if p.at(s) {
		p.rest = p.rest[len(s):]
		return true
	}
	return false
}

// want skips s, which must come next.
func (p *parser) want(s string) {
	if !p.eat(s) {
		p.fail("expected %q", s)
	}
}

// word skips s if a blank follows it: a longer name may begin with s.
func (p *parser) word(s string) bool {
	return p.at(s+" ") && p.eat(s)
}

// token reads a name, with its domain, or a number.
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

// list reads tokens or quoted texts between two brackets. Commas between them may be left out. It is never nil.
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

// quoted reads a text in quotation marks. It has no escapes.
func (p *parser) quoted() string {
	p.want(`"`)
	s, rest, ok := strings.Cut(p.rest, `"`)
	if !ok {
		p.fail("a quote is open")
	}
	p.rest = rest
	return s
}

// input reads one input, such as s:int64[N,4]. A dimension N is that of rows.
func (p *parser) input() {
	in := Input{Name: p.token(), DType: onnxgraph.Float, Axis: -1}
	if p.eat(":") {
		name := p.token()
		var ok bool
		if in.DType, ok = Types[name]; !ok {
			p.fail("no type %s", name)
		}
	}
	in.Dims = p.list("[", "]")
	var dims []any
	for at, d := range in.Dims {
		// The name stays N in the model: all inputs with rows have the same number of them.
		if d == "N" {
			in.Axis = at
			p.s.Axes[in.Name] = at
		}
		if n, err := strconv.Atoi(d); err == nil {
			dims = append(dims, n)
		} else {
			dims = append(dims, d)
		}
	}
	p.s.Graph.Input(in.Name, in.DType, dims...)
	p.s.Inputs = append(p.s.Inputs, in)
}

// statements reads assignments up to the outputs, and returns the names of those. What does not begin as an assignment
// is taken for the outputs, and read again as that.
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

// names reads the left side of an assignment, or returns nil if there is none. It may have read some of the text then.
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

// expressions reads the outputs: values with commas between them.
func (p *parser) expressions() []string {
	var list []string
	for {
		list = append(list, p.expression(true))
		if !p.eat(",") {
			return list
		}
	}
}

// expression reads a value and returns its name. It adds a constant or a node for it where needed. An output of a body
// must be computed within the body, so that a plain name gets an Identity.
func (p *parser) expression(output bool) string {
	p.space()
	switch {
	case p.rest == "":
		p.fail("expected a value")
	case strings.ContainsAny(p.rest[:1], "[<\"") || strings.ContainsAny(p.rest[:1], "-0123456789"):
		return p.constant(unnamed)
	}
	before := p.rest
	name := p.token()
	if name == "_" {
		return ""
	}
	// A type before a bracket begins a constant. Without one the same word may be a name.
	if dtype, ok := Types[name]; ok && p.rest != "" && strings.ContainsAny(p.rest[:1], "[<(") {
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

// node reads an operator with its attributes and inputs, and adds it with these outputs, or one new output if there are
// none. The prefixes ms. and ml. name the other two domains.
func (p *parser) node(outs []string) []string {
	domain, op := "", p.token()
	if d, rest, ok := strings.Cut(op, "."); ok {
		domain, op = map[string]string{"ms": "com.microsoft", "ml": "ai.onnx.ml"}[d], rest
	}
	p.s.Ops = append(p.s.Ops, op)
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

// add adds a node with n new outputs. Names are counted by the model, so that those of bodies differ from those around.
func (p *parser) add(domain, op string, ins []string, n int, attrs []onnxgraph.Attr) []string {
	var outs []string
	for range n {
		p.s.nodes++
		outs = append(outs, fmt.Sprintf("t%d", p.s.nodes))
	}
	p.g.DomainNode(domain, op, ins, outs, attrs...)
	return outs
}

// attribute reads an attribute. Its type follows from how it is written: a graph, a text, a list of floats, integers or
// names, an integer or a float.
func (p *parser) attribute() onnxgraph.Attr {
	name := p.token()
	p.want("=")
	switch {
	case p.at("("):
		// The names of a body's inputs come in parentheses, and its statements and outputs behind =>.
		inner := &parser{s: p.s, g: onnxgraph.New("body"), rest: p.rest, rng: p.rng, deep: true}
		inner.want("(")
		for !inner.eat(")") {
			name, dtype := inner.token(), onnxgraph.Float
			if inner.eat(":") {
				dtype = Types[inner.token()]
			}
			// [] declares a scalar; without it the shape is not known.
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
		// A decimal point in the first element makes all of them floats.
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
