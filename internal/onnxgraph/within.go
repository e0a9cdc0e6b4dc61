package onnxgraph

import (
	"fmt"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Wrappers are the ways in which [Graph.Within] moves the nodes of a graph.
var Wrappers = []string{"function", "If", "Loop", "Scan"}

// Within moves all nodes so far into a function, or into a graph within a node that runs it once. It changes nothing
// that the model computes. Names of outputs get the wrapper's name behind them, since a graph within must not compute a
// name of the graph around it. Repeated calls nest. An unknown wrapper panics.
func (g *Graph) Within(wrapper string) *Graph {
	moved, outputs := g.graph, g.graph.GetOutput()
	inner := &Graph{model: g.model, graph: moved}
	// The new graph has the same inputs, and outputs of new names.
	g.graph = &onnx.GraphProto{Name: moved.Name, Input: moved.GetInput()}
	g.model.Graph = g.graph
	moved.Name, moved.Input, moved.Output = &wrapper, nil, nil
	var names, results []string
	for _, out := range outputs {
		result := out.GetName() + "." + wrapper
		names, results = append(names, out.GetName()), append(results, result)
		g.graph.Output = append(g.graph.Output, &onnx.ValueInfoProto{Name: &result, Type: out.GetType()})
		inner.AnyOutput(out.GetName())
	}
	g.wrappers++
	switch unique := fmt.Sprintf("%s%d", wrapper, g.wrappers); wrapper {
	case "function":
		var given []string
		// A function sees nothing of what is around it: inputs and weights must be given to it.
		for _, in := range g.graph.GetInput() {
			given = append(given, in.GetName())
		}
		g.graph.Initializer, moved.Initializer = moved.GetInitializer(), nil
		for _, t := range g.graph.GetInitializer() {
			given = append(given, t.GetName())
		}
		if len(g.model.GetFunctions()) == 0 {
			g.Opset("made", int64(1+len(moved.GetNode())%3)) // it means nothing
		}
		g.Function("made", unique, inner, given, names, nil).DomainNode("made", unique, given, results)
	case "If":
		// How many dimensions an input has, compared as floats: a reader that does not compute cannot know which graph
		// runs, and an engine does not know it before it runs.
		g.Node("Shape", []string{g.graph.GetInput()[0].GetName()}, []string{"shape" + unique})
		g.Node("Size", []string{"shape" + unique}, []string{"size" + unique})
		g.Node("Cast", []string{"size" + unique}, []string{"rank" + unique}, IntAttr("to", int64(Float)))
		g.InitFloats("most"+unique, nil, 100).Node("Less", []string{"rank" + unique, "most" + unique},
			[]string{"cond" + unique})
		g.Node(wrapper, []string{"cond" + unique}, results, GraphAttr("then_branch", inner),
			GraphAttr("else_branch", inner))
	case "Loop":
		// A Loop's body takes the number of the turn and a condition, and gives the condition for the next turn before its
		// results.
		g.InitInt64s("turns"+unique, nil, 1)
		inner.Input("turn"+unique, Int64).Input("go"+unique, Bool)
		moved.Output = append([]*onnx.ValueInfoProto{{Name: new("on" + unique)}}, moved.GetOutput()...)
		inner.Node("Identity", []string{"go" + unique}, []string{"on" + unique})
		g.stacked(wrapper, unique, []string{"turns" + unique, ""}, results, GraphAttr("body", inner))
	case "Scan":
		// A Scan runs its body once for each entry of its input: here there is one entry, which the body does not use.
		g.InitFloats("entries"+unique, []int64{1, 1}, 1)
		inner.Input("entry"+unique, Float, 1)
		g.stacked(wrapper, unique, []string{"entries" + unique}, results, GraphAttr("body", inner),
			IntAttr("num_scan_inputs", 1))
	default:
		panic("onnxgraph: there is no wrapper " + wrapper)
	}
	return g
}

// stacked adds a node whose outputs are stacks of one result each, and takes the results out of the stacks.
func (g *Graph) stacked(op, unique string, inputs, results []string, attrs ...Attr) {
	stacks := make([]string, 0, len(results))
	for i := range results {
		stacks = append(stacks, fmt.Sprintf("stack%s.%d", unique, i))
	}
	g.Node(op, inputs, stacks, attrs...)
	// From operator set 13 on Squeeze takes the axes as an input, before as an attribute.
	if g.model.GetOpsetImport()[0].GetVersion() >= 13 {
		g.InitInt64s("axes"+unique, []int64{1}, 0)
	}
	for i, stack := range stacks {
		if g.model.GetOpsetImport()[0].GetVersion() >= 13 {
			g.Node("Squeeze", []string{stack, "axes" + unique}, results[i:i+1])
		} else {
			g.Node("Squeeze", []string{stack}, results[i:i+1], IntsAttr("axes", 0))
		}
	}
}
