package pipeline

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// renaming returns what the values of a step are called: as given, its initializers as they are in the merged graph,
// and any other with a prefix.
func (s *step) renaming(prefix string, given map[string]string) func(string) string {
	return func(name string) string {
		switch other, is := given[name]; {
		case name == "": // an input or output that is left out
			return ""
		case is:
			return other
		case s.initializers[name]:
			return s.weights + name
		}
		return prefix + name
	}
}

// renamed returns nodes with other names of values, in their subgraphs too. What subgraphs say of types is dropped:
// sizes have other names.
func renamed(nodes []*onnx.NodeProto, rename func(string) string) []*onnx.NodeProto {
	all := make([]*onnx.NodeProto, len(nodes))
	for i, n := range nodes {
		n = proto.CloneOf(n)
		renameAll(n.GetInput(), rename)
		renameAll(n.GetOutput(), rename)
		if n.GetName() != "" {
			n.Name = new(rename(n.GetName()))
		}
		for g := range subgraphs(n) {
			renameGraph(g, rename)
		}
		all[i] = n
	}
	return all
}

func renameAll(names []string, rename func(string) string) {
	for i, name := range names {
		names[i] = rename(name)
	}
}

func renameGraph(g *onnx.GraphProto, rename func(string) string) {
	g.Node, g.ValueInfo, g.QuantizationAnnotation = renamed(g.GetNode(), rename), nil, nil
	for _, v := range slices.Concat(g.GetInput(), g.GetOutput()) {
		v.Name, v.Type = new(rename(v.GetName())), unnamed(v.GetType())
	}
	for _, t := range g.GetInitializer() {
		t.Name = new(rename(t.GetName()))
	}
	for _, t := range g.GetSparseInitializer() {
		t.Values.Name = new(rename(t.GetValues().GetName()))
	}
}

// unnamed returns a type without its names of sizes.
func unnamed(t *onnx.TypeProto) *onnx.TypeProto {
	return without(t, func(string) bool { return true })
}

// without returns a type without some names of sizes.
func without(t *onnx.TypeProto, drop func(name string) bool) *onnx.TypeProto {
	t = proto.CloneOf(t)
	for _, d := range t.GetTensorType().GetShape().GetDim() {
		if d.GetDimParam() != "" && drop(d.GetDimParam()) {
			d.Value = nil
		}
	}
	return t
}

// subgraphs yields the graphs in a node's attributes.
func subgraphs(n *onnx.NodeProto) func(yield func(*onnx.GraphProto) bool) {
	return func(yield func(*onnx.GraphProto) bool) {
		for _, a := range n.GetAttribute() {
			if a.GetG() != nil && !yield(a.GetG()) {
				return
			}
			for _, g := range a.GetGraphs() {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// finish gives the pipeline its outputs, and leaves out what none of them needs. It names no sizes of values that nodes
// read, since a model may give two outputs one name of a size although they differ. That does no harm by itself. Where
// another step reads them, ONNX Runtime puts values into buffers of the wrong size. It infers names from the inputs.
func (m *merger) finish() {
	graph := m.merged.GetGraph()
	produced := map[string]bool{}
	for _, n := range graph.GetNode() {
		for _, name := range n.GetOutput() {
			produced[name] = true
		}
	}
	for _, name := range m.order {
		graph.Input = append(graph.Input, m.value(name, m.inputs[name]))
	}
	outputs := map[string]string{} // values by what they are called from now on
	for _, name := range slices.Sorted(maps.Keys(m.Outputs)) {
		step, output, _ := m.StepOf(m.Outputs[name])
		value := m.step(step).names[output]
		if _, taken := outputs[value]; taken || !produced[value] {
			graph.Node = append(graph.Node, identity(value, name))
		} else {
			outputs[value] = name
		}
		of := input{step, m.step(step).gives[output]}
		as, taken := m.taken(m.Outputs[name])
		if of.is == nil {
			of = as
		}
		is := m.value(name, of)
		if taken {
			is.Type = unnamed(is.GetType())
		}
		graph.Output = append(graph.Output, is)
	}
	graph.Node = renamed(graph.GetNode(), func(name string) string {
		if output, is := outputs[name]; is {
			return output
		}
		return name
	})
	known := map[string]bool{}
	for _, v := range slices.Concat(graph.GetInput(), graph.GetOutput()) {
		known[v.GetName()] = true
	}
	for _, v := range m.known {
		if outputs[v.name] == "" && v.is != nil && !known[v.name] {
			known[v.name] = true
			is := m.value(v.name, v.input)
			is.Type = unnamed(is.GetType())
			graph.ValueInfo = append(graph.ValueInfo, is)
		}
	}
	m.prune()
}

// taken returns as what another step takes an output of a step; not is: none does.
func (m *merger) taken(from string) (as input, is bool) {
	for _, s := range m.steps {
		for _, in := range s.needs {
			if s.Inputs[in.GetName()] == from {
				return input{s.Name, in.GetType()}, true
			}
		}
	}
	return input{}, false
}

// value says what the type of a value in the merged graph is.
func (m *merger) value(name string, v input) *onnx.ValueInfoProto {
	return &onnx.ValueInfoProto{Name: &name, Type: m.sizes.shown(v.first, proto.CloneOf(v.is))}
}

// prune leaves out what no output needs: nodes, weights, functions and inputs.
func (m *merger) prune() {
	graph := m.merged.GetGraph()
	functions := map[function]bool{}
	needed := live(graph, functions)
	for before := -1; before < len(functions); { // what a function calls may be anywhere in the list
		before = len(functions)
		for _, f := range m.merged.GetFunctions() {
			for _, n := range f.GetNode() {
				if functions[functionOf(f)] {
					mark(n, map[string]bool{}, functions)
				}
			}
		}
	}
	m.merged.Functions = slices.DeleteFunc(m.merged.GetFunctions(), func(f *onnx.FunctionProto) bool {
		return !functions[functionOf(f)]
	})
	graph.Initializer = slices.DeleteFunc(graph.GetInitializer(), func(t *onnx.TensorProto) bool {
		return !needed[t.GetName()]
	})
	graph.SparseInitializer = slices.DeleteFunc(graph.GetSparseInitializer(), func(t *onnx.SparseTensorProto) bool {
		return !needed[t.GetValues().GetName()]
	})
	useless := func(v *onnx.ValueInfoProto) bool { return !needed[v.GetName()] }
	graph.ValueInfo = slices.DeleteFunc(graph.GetValueInfo(), useless)
	for _, s := range m.Steps { // settings name these, even if the model does not need them
		for in := range s.Kept {
			needed[s.Inputs[in]] = true
		}
	}
	if !m.Staged() { // a condition may need it
		graph.Input = slices.DeleteFunc(graph.GetInput(), useless)
	}
}

// live leaves only those nodes in a graph that an output needs, and returns the values that are needed. It adds the
// functions that the nodes call.
func live(g *onnx.GraphProto, functions map[function]bool) (needed map[string]bool) {
	needed = map[string]bool{}
	for _, out := range g.GetOutput() {
		needed[out.GetName()] = true
	}
	var kept []*onnx.NodeProto
	for _, n := range slices.Backward(g.GetNode()) {
		if slices.ContainsFunc(n.GetOutput(), func(name string) bool { return needed[name] }) {
			kept = append(kept, n)
			mark(n, needed, functions)
		}
	}
	slices.Reverse(kept)
	g.Node = kept
	return needed
}

// mark adds the values that a node gets, also in its subgraphs, and the functions that it calls.
func mark(n *onnx.NodeProto, needed map[string]bool, functions map[function]bool) {
	for _, name := range n.GetInput() {
		needed[name] = true
	}
	functions[callOf(n)] = true
	for g := range subgraphs(n) {
		for _, inner := range g.GetNode() {
			mark(inner, needed, functions)
		}
		for _, out := range g.GetOutput() {
			needed[out.GetName()] = true
		}
	}
}

// function identifies a model-local function.
type function struct{ domain, name, overload string }

func functionOf(f *onnx.FunctionProto) function {
	return function{f.GetDomain(), f.GetName(), f.GetOverload()}
}

// callOf is what a node calls, if that is a function.
func callOf(n *onnx.NodeProto) function {
	return function{n.GetDomain(), n.GetOpType(), n.GetOverload()}
}

func functionsOf(model *onnx.ModelProto) map[function]bool {
	all := map[function]bool{}
	for _, f := range model.GetFunctions() {
		all[functionOf(f)] = true
	}
	return all
}

// functions adds the functions of a step's model, under names of their own, and without what they say of sizes.
func (m *merger) functions(s *step, model *onnx.ModelProto) {
	own := functionsOf(model)
	var name func(nodes []*onnx.NodeProto)
	name = func(nodes []*onnx.NodeProto) {
		for _, n := range nodes {
			if own[callOf(n)] {
				n.OpType = new(s.Name + "." + n.GetOpType())
			}
			for g := range subgraphs(n) {
				name(g.GetNode())
			}
		}
	}
	name(s.graph.GetNode())
	for _, f := range model.GetFunctions() {
		f.Name = new(s.Name + "." + f.GetName())
		name(f.GetNode())
		f.Node, f.ValueInfo = renamed(f.GetNode(), func(value string) string { return value }), nil
	}
	m.merged.Functions = append(m.merged.GetFunctions(), model.GetFunctions()...)
}
