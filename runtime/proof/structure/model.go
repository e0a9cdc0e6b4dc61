package structure

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/modelfile"
)

// Model is the graph of a model file, without its weights.
type Model struct {
	proto     *onnx.ModelProto
	functions map[functionKey]*onnx.FunctionProto
	nodes     int
	types     typeSet
	replaced  bool // the functions may be
}

type functionKey struct{ domain, name, overload string }

// Read reads the graph of a model file (.onnx) of so many bytes, but not its weights: it allocates little in comparison
// with the file's size, and tensors kept in files of their own are not looked at.
func Read(r io.ReaderAt, size int64) (*Model, error) {
	m, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("model.onnx is no ONNX model: %w", err)
	}
	return m, nil
}

func read(r io.ReaderAt, size int64) (*Model, error) {
	kept, err := modelfile.Slim(r, size)
	if err != nil {
		return nil, err
	}
	m := &Model{proto: &onnx.ModelProto{}, functions: map[functionKey]*onnx.FunctionProto{}}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kept, m.proto); err != nil {
		return nil, err
	}
	if m.proto.GetGraph() == nil {
		return nil, errors.New("it has no graph")
	}
	m.nodes = countNodes(m.proto.GetGraph().GetNode())
	m.types = typeSet{}
	m.types.addGraph(m.proto.GetGraph())
	for _, f := range m.proto.GetFunctions() {
		key := functionKey{standard(f.GetDomain()), f.GetName(), f.GetOverload()}
		if m.functions[key] != nil {
			return nil, fmt.Errorf("it has two functions %q", f.GetName())
		}
		m.functions[key] = f
		m.nodes += countNodes(f.GetNode())
		m.types.addNodes(f.GetNode())
	}
	return m, nil
}

// ReplaceFunctions has proofs take nothing from the model's own functions: the engine may have operators of their
// names, which it runs in their place.
func (m *Model) ReplaceFunctions() { m.replaced = true }

func countNodes(nodes []*onnx.NodeProto) int {
	n := len(nodes)
	for _, node := range nodes {
		for _, a := range node.GetAttribute() {
			n += countNodes(a.GetG().GetNode())
		}
	}
	return n
}
