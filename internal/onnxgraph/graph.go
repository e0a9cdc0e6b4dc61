// Package onnxgraph writes small ONNX model files from Go, for tests, examples and load tests.
//
// It writes the messages of the ONNX intermediate representation
// (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto) field by field, so that the repository needs
// neither Python nor a generated copy of the schema. It checks nothing that ONNX itself would check: a test
// that needs a broken model writes one with the same calls. Equal calls give equal bytes.
package onnxgraph

import "fmt"

// Defaults of a new graph: both are old enough for every ONNX Runtime release since 1.13.
const (
	DefaultIRVersion = 8
	DefaultOpset     = 17
)

// Graph collects the parts of one model in the order in which they are added. Nodes must be added in
// topological order, as ONNX demands. The zero value is not usable; call [New].
type Graph struct {
	name         string
	irVersion    int64
	opsets       []message
	nodes        []message
	initializers []message
	inputs       []message
	outputs      []message
	metadata     []message
	functions    []message
	opset        int64 // of the standard operators
	wrappers     int   // by [Graph.Within]
}

// New returns an empty graph of that name, in IR version [DefaultIRVersion] and opset [DefaultOpset].
func New(name string) *Graph {
	g := &Graph{name: name, irVersion: DefaultIRVersion}
	g.Opset("", DefaultOpset)
	return g
}

// IRVersion replaces the version of the file format.
func (g *Graph) IRVersion(version int64) *Graph {
	g.irVersion = version
	return g
}

// Opset replaces the version of the standard operators (domain "", always the first entry) or adds another
// domain, such as "com.microsoft" or "ai.onnx.ml".
func (g *Graph) Opset(domain string, version int64) *Graph {
	var m message
	m.text(1, domain)
	m.int(2, version)
	if domain == "" {
		g.opset = version
	}
	if domain == "" && len(g.opsets) > 0 {
		g.opsets[0] = m
	} else {
		g.opsets = append(g.opsets, m)
	}
	return g
}

// Metadata adds one entry of the model's free-form metadata.
func (g *Graph) Metadata(key, value string) *Graph {
	g.metadata = append(g.metadata, entry(key, value))
	return g
}

// Input declares an input tensor. A dim is an int or int64 (a fixed size), a string (a symbolic size, such as
// "batch") or nil (unknown, without a name); any other type panics. No dims declare a scalar.
func (g *Graph) Input(name string, dtype DType, dims ...any) *Graph {
	g.inputs = append(g.inputs, valueInfo(name, dtype, dims))
	return g
}

// Output declares an output tensor; the dims are those of [Graph.Input].
func (g *Graph) Output(name string, dtype DType, dims ...any) *Graph {
	g.outputs = append(g.outputs, valueInfo(name, dtype, dims))
	return g
}

// Node adds one operator of the standard domain. An empty input name leaves out an optional input.
func (g *Graph) Node(op string, inputs, outputs []string, attrs ...Attr) *Graph {
	return g.DomainNode("", op, inputs, outputs, attrs...)
}

// DomainNode adds one operator of another domain, whose version [Graph.Opset] must state.
func (g *Graph) DomainNode(domain, op string, inputs, outputs []string, attrs ...Attr) *Graph {
	var m message
	for _, in := range inputs {
		m.text(1, in)
	}
	for _, out := range outputs {
		m.text(2, out)
	}
	m.text(3, fmt.Sprintf("%s_%d", op, len(g.nodes)))
	m.text(4, op)
	for _, a := range attrs {
		m.bytes(5, a.encoded)
	}
	if domain != "" {
		m.text(7, domain)
	}
	g.nodes = append(g.nodes, m)
	return g
}

// UnshapedInput declares an input tensor whose shape is not given, as in a graph within a graph.
func (g *Graph) UnshapedInput(name string, dtype DType) *Graph {
	var tensorType, typ, info message
	tensorType.int(1, int64(dtype))
	typ.bytes(1, tensorType)
	info.text(1, name)
	info.bytes(2, typ)
	g.inputs = append(g.inputs, info)
	return g
}

// AnyOutput declares an output of which neither the element type nor the shape is given: both follow from the nodes.
func (g *Graph) AnyOutput(name string) *Graph {
	var info message
	info.text(1, name)
	g.outputs = append(g.outputs, info)
	return g
}

// Function adds a function that nodes can call as an operator of that domain: its body is a graph whose inputs and
// outputs count by name only. It uses the operator sets that body was given.
func (g *Graph) Function(domain, name string, body *Graph, inputs, outputs, attributes []string) *Graph {
	var m message
	m.text(1, name)
	for _, in := range inputs {
		m.text(4, in)
	}
	for _, out := range outputs {
		m.text(5, out)
	}
	for _, a := range attributes {
		m.text(6, a)
	}
	m.repeat(7, body.nodes)
	m.repeat(9, body.opsets)
	m.text(10, domain)
	g.functions = append(g.functions, m)
	return g
}

// Marshal returns the model file. The graph may be added to and marshalled again.
func (g *Graph) Marshal() []byte {
	var model message
	model.int(1, g.irVersion)
	model.text(2, "weft")
	model.bytes(7, g.graph())
	model.repeat(8, g.opsets)
	model.repeat(14, g.metadata)
	model.repeat(25, g.functions)
	return model
}

// graph encodes the GraphProto.
func (g *Graph) graph() message {
	var m message
	m.repeat(1, g.nodes)
	m.text(2, g.name)
	m.repeat(5, g.initializers)
	m.repeat(11, g.inputs)
	m.repeat(12, g.outputs)
	return m
}

// valueInfo encodes a ValueInfoProto of tensor type.
func valueInfo(name string, dtype DType, dims []any) message {
	var shape message
	for _, d := range dims {
		var dim message
		switch d := d.(type) {
		case int:
			dim.int(1, int64(d))
		case int64:
			dim.int(1, d)
		case string:
			dim.text(2, d)
		case nil:
		default:
			// A mistake in the calling code: panic rather than give every builder call an error to carry.
			panic(fmt.Sprintf("onnxgraph: tensor %q: dim %v is a %T; want int, int64, string or nil", name, d, d))
		}
		shape.bytes(1, dim)
	}
	var tensorType message
	tensorType.int(1, int64(dtype))
	tensorType.bytes(2, shape)
	var typ message
	typ.bytes(1, tensorType)
	var info message
	info.text(1, name)
	info.bytes(2, typ)
	return info
}
