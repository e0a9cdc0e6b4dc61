// Package onnxgraph builds small ONNX model files in Go, for tests, examples and load tests.
//
// It fills the messages of proto/onnx in a few words each. It checks nothing that ONNX itself would check: a test that
// needs a broken model builds one with the same calls. Equal calls give equal bytes.
package onnxgraph

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Defaults of a new graph: both are old enough for every ONNX Runtime release since 1.13.
const (
	DefaultIRVersion = 8
	DefaultOpset     = 17
)

// Graph collects the parts of one model in the order in which they are added. Nodes must be added in
// topological order, as ONNX demands. The zero value is not usable; call [New].
type Graph struct {
	model    *onnx.ModelProto
	graph    *onnx.GraphProto // the model's
	wrappers int              // by [Graph.Within]
}

// New returns an empty graph of that name, in IR version [DefaultIRVersion] and opset [DefaultOpset].
func New(name string) *Graph {
	graph := &onnx.GraphProto{Name: &name}
	model := &onnx.ModelProto{ProducerName: new("weft"), Graph: graph}
	return (&Graph{model: model, graph: graph}).IRVersion(DefaultIRVersion).Opset("", DefaultOpset)
}

// IRVersion replaces the version of the file format.
func (g *Graph) IRVersion(version int64) *Graph {
	g.model.IrVersion = &version
	return g
}

// Opset replaces the version of the standard operators (domain "", always the first entry) or adds another
// domain, such as "com.microsoft" or "ai.onnx.ml".
func (g *Graph) Opset(domain string, version int64) *Graph {
	set := &onnx.OperatorSetIdProto{Domain: &domain, Version: &version}
	if domain == "" && len(g.model.GetOpsetImport()) > 0 {
		g.model.OpsetImport[0] = set
	} else {
		g.model.OpsetImport = append(g.model.OpsetImport, set)
	}
	return g
}

// Metadata adds one entry of the model's free-form metadata.
func (g *Graph) Metadata(key, value string) *Graph {
	g.model.MetadataProps = append(g.model.MetadataProps, &onnx.StringStringEntryProto{Key: &key, Value: &value})
	return g
}

// Input declares an input tensor. A dim is an int or int64 (a fixed size), a string (a symbolic size, such as
// "batch") or nil (unknown, without a name); any other type panics. No dims declare a scalar.
func (g *Graph) Input(name string, dtype DType, dims ...any) *Graph {
	g.graph.Input = append(g.graph.Input, valueInfo(name, dtype, shapeOf(name, dims)))
	return g
}

// Output declares an output tensor; the dims are those of [Graph.Input].
func (g *Graph) Output(name string, dtype DType, dims ...any) *Graph {
	g.graph.Output = append(g.graph.Output, valueInfo(name, dtype, shapeOf(name, dims)))
	return g
}

// Node adds one operator of the standard domain. An empty input name leaves out an optional input.
func (g *Graph) Node(op string, inputs, outputs []string, attrs ...Attr) *Graph {
	return g.DomainNode("", op, inputs, outputs, attrs...)
}

// DomainNode adds one operator of another domain, whose version [Graph.Opset] must state.
func (g *Graph) DomainNode(domain, op string, inputs, outputs []string, attrs ...Attr) *Graph {
	node := &onnx.NodeProto{
		Name: new(fmt.Sprintf("%s_%d", op, len(g.graph.GetNode()))), OpType: &op, Attribute: attrs,
		Input: slices.Clone(inputs), Output: slices.Clone(outputs),
	}
	if domain != "" {
		node.Domain = &domain
	}
	g.graph.Node = append(g.graph.Node, node)
	return g
}

// UnshapedInput declares an input tensor whose shape is not given, as in a graph within a graph.
func (g *Graph) UnshapedInput(name string, dtype DType) *Graph {
	g.graph.Input = append(g.graph.Input, valueInfo(name, dtype, nil))
	return g
}

// AnyOutput declares an output without an element type or a shape: both follow from the nodes.
func (g *Graph) AnyOutput(name string) *Graph {
	g.graph.Output = append(g.graph.Output, &onnx.ValueInfoProto{Name: &name})
	return g
}

// Function adds a function that nodes can call as an operator of that domain. Its body is a graph, whose inputs and
// outputs count by name only. It uses the operator sets of that body.
func (g *Graph) Function(domain, name string, body *Graph, inputs, outputs, attributes []string) *Graph {
	g.model.Functions = append(g.model.Functions, &onnx.FunctionProto{
		Domain: &domain, Name: &name, Input: inputs, Output: outputs, Attribute: attributes, Node: body.graph.GetNode(),
		OpsetImport: slices.Clone(body.model.GetOpsetImport()),
	})
	return g
}

// Marshal returns the model file. The graph may be added to and marshalled again. An error of protobuf panics: it would
// be a mistake here.
func (g *Graph) Marshal() []byte {
	file, err := proto.MarshalOptions{Deterministic: true}.Marshal(g.model)
	if err != nil {
		panic("onnxgraph: " + err.Error())
	}
	return file
}

// valueInfo declares a tensor by its name. A nil shape is not known; an empty one is a scalar.
func valueInfo(name string, dtype DType, shape *onnx.TensorShapeProto) *onnx.ValueInfoProto {
	tensor := &onnx.TypeProto_Tensor{ElemType: new(int32(dtype)), Shape: shape}
	return &onnx.ValueInfoProto{
		Name: &name, Type: &onnx.TypeProto{Value: &onnx.TypeProto_TensorType{TensorType: tensor}},
	}
}

// shapeOf returns the shape that dims declare; name is for the panic only.
func shapeOf(name string, dims []any) *onnx.TensorShapeProto {
	shape := &onnx.TensorShapeProto{}
	for _, d := range dims {
		dim := &onnx.TensorShapeProto_Dimension{}
		switch d := d.(type) {
		case int:
			dim.Value = &onnx.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}
		case int64:
			dim.Value = &onnx.TensorShapeProto_Dimension_DimValue{DimValue: d}
		case string:
			dim.Value = &onnx.TensorShapeProto_Dimension_DimParam{DimParam: d}
		case nil:
		default:
			// A mistake in the calling code: panic rather than give every builder call an error to carry.
			panic(fmt.Sprintf("onnxgraph: tensor %q: dim %v is a %T; want int, int64, string or nil", name, d, d))
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return shape
}
