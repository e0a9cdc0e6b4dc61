package onnxgraph

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wrappers are the ways in which [Graph.Within] moves the nodes of a graph.
var Wrappers = []string{"function", "If", "Loop", "Scan"}

// Within moves all nodes so far into a function, or into a graph of a node that runs it once, and so changes nothing
// that the model computes. Names of outputs get the wrapper's behind them: a graph within must not compute a name of
// the graph around it. Repeated calls nest. It panics where there is no such wrapper, which is a mistake in a test.
func (g *Graph) Within(wrapper string) *Graph {
	inner := &Graph{name: wrapper, opsets: g.opsets, nodes: g.nodes, initializers: g.initializers}
	outputs := g.outputs
	g.nodes, g.initializers, g.outputs = nil, nil, nil
	var names, results []string
	for _, out := range outputs {
		name, typed := named(out)
		var info message
		info.text(1, name+"."+wrapper)
		g.outputs = append(g.outputs, append(info, typed...))
		names, results = append(names, name), append(results, name+"."+wrapper)
		inner.AnyOutput(name)
	}
	g.wrappers++
	switch unique := fmt.Sprintf("%s%d", wrapper, g.wrappers); wrapper {
	case "function":
		var given []string
		for _, in := range g.inputs {
			name, _ := named(in)
			given = append(given, name)
		}
		g.initializers = inner.initializers
		for _, t := range g.initializers {
			given = append(given, tensorName(t))
		}
		if len(g.functions) == 0 {
			g.Opset("made", 1)
			inner.opsets = g.opsets
		}
		g.Function("made", unique, inner, given, names, nil).DomainNode("made", unique, given, results)
	case "If":
		// How many dimensions an input has, compared as floats: a reader that does not compute cannot know which graph
		// runs, and an engine does not know it before it runs.
		first, _ := named(g.inputs[0])
		g.Node("Shape", []string{first}, []string{"shape" + unique})
		g.Node("Size", []string{"shape" + unique}, []string{"size" + unique})
		g.Node("Cast", []string{"size" + unique}, []string{"rank" + unique}, IntAttr("to", int64(Float)))
		g.InitFloats("most"+unique, nil, 100).Node("Less", []string{"rank" + unique, "most" + unique},
			[]string{"cond" + unique})
		g.Node(wrapper, []string{"cond" + unique}, results, GraphAttr("then_branch", inner),
			GraphAttr("else_branch", inner))
	case "Loop":
		g.InitInt64s("turns"+unique, nil, 1)
		loop := *inner
		loop.outputs = nil
		loop.Input("turn"+unique, Int64).Input("go"+unique, Bool).AnyOutput("on" + unique)
		loop.outputs = append(loop.outputs, inner.outputs...)
		loop.Node("Identity", []string{"go" + unique}, []string{"on" + unique})
		g.stacked(wrapper, unique, []string{"turns" + unique, ""}, results, GraphAttr("body", &loop))
	case "Scan":
		g.InitFloats("entries"+unique, []int64{1, 1}, 1)
		inner.Input("entry"+unique, Float, 1)
		g.stacked(wrapper, unique, []string{"entries" + unique}, results, GraphAttr("body", inner),
			IntAttr("num_scan_inputs", 1))
	default:
		panic("onnxgraph: there is no wrapper " + wrapper)
	}
	return g
}

// stacked adds a node whose outputs are stacks of one result each, and takes them out.
func (g *Graph) stacked(op, unique string, inputs, results []string, attrs ...Attr) {
	stacks := make([]string, 0, len(results))
	for i := range results {
		stacks = append(stacks, fmt.Sprintf("stack%s.%d", unique, i))
	}
	g.Node(op, inputs, stacks, attrs...)
	if g.opset >= 13 {
		g.InitInt64s("axes"+unique, []int64{1}, 0)
	}
	for i, stack := range stacks {
		if g.opset >= 13 {
			g.Node("Squeeze", []string{stack, "axes" + unique}, results[i:i+1])
		} else {
			g.Node("Squeeze", []string{stack}, results[i:i+1], IntsAttr("axes", 0))
		}
	}
}

// named splits a ValueInfoProto, whose first field is its name, into that and the rest.
func named(info message) (name string, rest message) {
	_, _, tag := protowire.ConsumeTag(info)
	text, n := protowire.ConsumeBytes(info[tag:])
	return string(text), info[tag+n:]
}

// tensorName is the name of a TensorProto.
func tensorName(t message) string {
	for len(t) > 0 {
		field, kind, n := protowire.ConsumeTag(t)
		if t = t[n:]; field == 8 {
			text, _ := protowire.ConsumeBytes(t)
			return string(text)
		}
		t = t[protowire.ConsumeFieldValue(field, kind, t):]
	}
	return ""
}
