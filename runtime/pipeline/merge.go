package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Merge returns one model for a pipeline whose steps have these models, in their order. It takes over the models, and
// returns everything that is wrong by the keys of pipeline.yaml. The merged model shares the memory of their weights.
func Merge(p *modelrepo.Pipeline, models []*onnx.ModelProto) (*onnx.ModelProto, config.Faults) {
	m := &merger{
		Pipeline: p, merged: &onnx.ModelProto{Graph: &onnx.GraphProto{Name: new("pipeline")}},
		inputs: map[string]input{}, sizes: newSizes(),
	}
	m.unify(models)
	for i, model := range models {
		m.steps = append(m.steps, m.read(i, model))
	}
	for _, s := range m.steps {
		m.wire(s)
	}
	m.wireOutputs()
	if len(m.faults) > 0 {
		return nil, m.faults
	}
	for i, s := range m.steps {
		m.join(s, m.Steps[i+1:])
	}
	m.finish()
	return m.merged, nil
}

// merger is a merge under way.
type merger struct {
	*modelrepo.Pipeline
	merged *onnx.ModelProto
	steps  []*step
	order  []string // the pipeline's inputs, as the steps come to them
	inputs map[string]input
	known  []typed // types that steps say of values, which ONNX Runtime may infer nothing of, as of what a loop gives
	sizes  *sizes
	faults config.Faults
}

// typed is a value, and its type.
type typed struct {
	name string
	input
}

// input is the type of an input of the pipeline or of another value, and the first step that has it, whose names of
// sizes it has.
type input struct {
	first string
	is    *onnx.TypeProto
}

// step is a step's model.
type step struct {
	modelrepo.Step
	key   string // in pipeline.yaml, such as "steps[0]"
	graph *onnx.GraphProto
	needs []*onnx.ValueInfoProto // its inputs, but for the ones with a default that are not given
	gives map[string]*onnx.TypeProto
	// What the names of its initializers begin with, which steps with the same model share, and who adds them.
	weights      string
	owner        bool
	initializers map[string]bool
	names        map[string]string // of its outputs, in the merged graph
}

func (m *merger) fault(key, format string, args ...any) { m.faults.Addf(key, format, args...) }

// read finds what the model of a step takes and gives, and compares that with what pipeline.yaml says.
func (m *merger) read(i int, model *onnx.ModelProto) *step {
	s := &step{
		Step: m.Steps[i], key: fmt.Sprintf("steps[%d]", i), graph: model.GetGraph(),
		gives: map[string]*onnx.TypeProto{}, names: map[string]string{}, initializers: map[string]bool{},
	}
	m.merged.IrVersion = new(max(m.merged.GetIrVersion(), model.GetIrVersion(), 8))
	m.functions(s, model)
	s.weights, s.owner = s.Name+".", true
	for _, before := range m.steps {
		if before.Of.Dir == s.Of.Dir {
			s.weights, s.owner = before.weights, false
		}
	}
	for _, t := range s.graph.GetInitializer() {
		s.initializers[t.GetName()] = true
		t.Name = new(s.weights + t.GetName())
	}
	for _, t := range s.graph.GetSparseInitializer() {
		s.initializers[t.GetValues().GetName()] = true
		t.Values.Name = new(s.weights + t.GetValues().GetName())
	}
	var all []string
	for _, in := range s.graph.GetInput() {
		_, given := s.Inputs[in.GetName()]
		if all = append(all, in.GetName()); given || !s.initializers[in.GetName()] {
			s.needs = append(s.needs, in)
		}
		if !given && !s.initializers[in.GetName()] {
			m.fault(s.key+".inputs", "%q is missing, an input of %s; expected what it gets: an input of the pipeline, or an "+
				"output of an earlier step", in.GetName(), s)
		}
	}
	for _, out := range s.graph.GetOutput() {
		s.gives[out.GetName()] = out.GetType()
	}
	for name := range s.Inputs {
		if !slices.Contains(all, name) {
			m.unknown(s.key+".inputs."+name, "input", s, name, all)
		}
	}
	for in, out := range s.Carry {
		key := s.key + ".carry." + in
		if _, given := s.Inputs[in]; !given && slices.Contains(all, in) {
			m.fault(key, "the input has no first value; expected it among the step's inputs, too")
		} else if !slices.Contains(all, in) {
			m.unknown(key, "input", s, in, all)
		}
		if _, is := s.gives[out]; !is {
			m.unknown(key, "output", s, out, slices.Sorted(maps.Keys(s.gives)))
		}
	}
	s.forget()
	return s
}

// String names a step's model in messages.
func (s *step) String() string { return fmt.Sprintf("model %s version %d", s.Model, s.Version) }

func (m *merger) unknown(key, kind string, s *step, name string, all []string) {
	said := ""
	if _, kept := s.Kept[name]; kept && kind == "input" || key == "outputs."+s.Name+"."+name {
		key, said = s.key+".model", ", which state in its settings names"
	}
	m.faults = append(m.faults, config.Fault{
		Key: key, Suggestion: config.Nearest(name, all),
		Message: fmt.Sprintf("%s has no %s %q%s; expected one of %s", s, kind, name, said, strings.Join(all, ", ")),
	})
}

// source returns the type of what an input of a step gets; not ok: there is no such value. It makes an input of the
// pipeline when that is first named.
func (m *merger) source(key, from string, s *step, want *onnx.TypeProto) (is input, ok bool) {
	name, output, isOutput := m.StepOf(from)
	if !isOutput {
		if _, known := m.inputs[from]; !known {
			m.order = append(m.order, from)
			m.inputs[from] = input{s.Name, want}
		}
		return m.inputs[from], true
	}
	t, ok := m.output(key, name, output)
	return input{name, t}, ok
}

// output returns the type of an output of a step; not ok: it has none of that name, which is a fault.
func (m *merger) output(key, name, output string) (*onnx.TypeProto, bool) {
	s := m.step(name)
	t, has := s.gives[output]
	if !has {
		m.unknown(key, "output", s, output, slices.Sorted(maps.Keys(s.gives)))
	}
	return t, has
}

func (m *merger) step(name string) *step {
	return m.steps[slices.IndexFunc(m.steps, func(s *step) bool { return s.Name == name })]
}

// name is what a value is called in the merged graph.
func (m *merger) name(from string) string {
	if step, output, is := m.StepOf(from); is {
		return m.step(step).names[output]
	}
	return from
}

// wire compares what a step gets with what it takes.
func (m *merger) wire(s *step) {
	for _, in := range s.needs {
		key, from := s.key+".inputs."+in.GetName(), s.Inputs[in.GetName()]
		if from == "" {
			continue // a fault already
		}
		if is, ok := m.source(key, from, s, in.GetType()); ok {
			m.meet(key, from, is, s, in.GetType(), m.sizes.join)
		}
	}
	for in, out := range s.Carry {
		m.meet(s.key+".carry."+in, s.Name+"."+out, input{s.Name, s.gives[out]}, s, s.typeOf(in), size.follows)
	}
}

// wireOutputs finds what the outputs of the pipeline are.
func (m *merger) wireOutputs() {
	for name, from := range m.Outputs {
		key := "outputs." + name
		step, output, _ := m.StepOf(from)
		m.output(key, step, output)
		if _, is := m.inputs[name]; is {
			m.fault(key, "an input of the pipeline is called so; expected another name")
		}
	}
}

// join adds the graph of a step.
func (m *merger) join(s *step, later []modelrepo.Step) {
	given := map[string]string{}
	for _, in := range s.needs {
		given[in.GetName()] = m.name(s.Inputs[in.GetName()])
		m.known = append(m.known, typed{given[in.GetName()], input{s.Name, in.GetType()}})
	}
	graph := m.merged.GetGraph()
	if s.owner {
		graph.Initializer = append(graph.Initializer, s.graph.GetInitializer()...)
		graph.SparseInitializer = append(graph.SparseInitializer, s.graph.GetSparseInitializer()...)
	}
	if s.Repeat > 1 {
		// A loop gives what it carries. What else is needed of the step comes from its last run, outside of the loop.
		carried := slices.Collect(maps.Values(s.Carry))
		whole := !m.needs(later, func(step, output string) bool {
			return step == s.Name && !slices.Contains(carried, output)
		})
		times := s.Repeat - 1
		if whole {
			times++
		}
		node, finals := s.loop(given)
		for in, final := range finals {
			m.known = append(m.known, typed{final, input{s.Name, unnamed(s.typeOf(in))}})
		}
		graph.Node = append(graph.Node, node)
		graph.Initializer = append(graph.Initializer, &onnx.TensorProto{
			Name: new(node.GetInput()[0]), DataType: new(int32(onnx.TensorProto_INT64)), Int64Data: []int64{int64(times)},
		})
		if whole {
			for in, out := range s.Carry {
				s.names[out] = finals[in]
			}
			return
		}
		maps.Copy(given, finals)
	}
	rename := s.renaming(s.Name+".", given)
	graph.Node = append(graph.Node, renamed(s.graph.GetNode(), rename)...)
	for out := range s.gives {
		s.names[out] = rename(out)
	}
}

// typeOf is that of an input.
func (s *step) typeOf(input string) *onnx.TypeProto {
	for _, in := range s.needs {
		if in.GetName() == input {
			return in.GetType()
		}
	}
	return nil
}

// needs reports whether a later step or the pipeline gets an output for which is holds.
func (m *merger) needs(later []modelrepo.Step, is func(step, output string) bool) bool {
	some := func(sources map[string]string) bool {
		for _, from := range sources {
			if step, output, of := m.StepOf(from); of && is(step, output) {
				return true
			}
		}
		return false
	}
	return some(m.Outputs) || slices.ContainsFunc(later, func(s modelrepo.Step) bool { return some(s.Inputs) })
}

// loop returns a node that runs a step as often as its first input says, and what its carried values are called at the
// end, by input.
func (s *step) loop(given map[string]string) (*onnx.NodeProto, map[string]string) {
	inner := maps.Clone(given)
	body := &onnx.GraphProto{Name: new(s.Name)}
	scalar := func(name string, of onnx.TensorProto_DataType) *onnx.ValueInfoProto {
		return &onnx.ValueInfoProto{Name: &name, Type: &onnx.TypeProto{Value: &onnx.TypeProto_TensorType{
			TensorType: &onnx.TypeProto_Tensor{ElemType: new(int32(of)), Shape: &onnx.TensorShapeProto{}},
		}}}
	}
	within := s.Name + "/"
	count, goOn, goesOn := within+"weft count", within+"weft go on", within+"weft goes on"
	body.Input = append(body.Input, scalar(count, onnx.TensorProto_INT64), scalar(goOn, onnx.TensorProto_BOOL))
	body.Output = append(body.Output, scalar(goesOn, onnx.TensorProto_BOOL))
	node := &onnx.NodeProto{OpType: new("Loop"), Name: new(s.Name), Input: []string{s.Name + ":times", ""}}
	carried := slices.Sorted(maps.Keys(s.Carry))
	for _, in := range carried {
		inner[in] = within + in
		node.Input = append(node.Input, given[in])
	}
	rename := s.renaming(within, inner)
	body.Node = append(renamed(s.graph.GetNode(), rename), identity(goOn, goesOn))
	finals := map[string]string{}
	for _, in := range carried {
		// An output of a graph is that of a node, and of no other output of the graph.
		next, final := within+"weft next "+in, s.Name+":"+in
		body.Node = append(body.Node, identity(rename(s.Carry[in]), next))
		body.Input = append(body.Input, &onnx.ValueInfoProto{Name: new(inner[in]), Type: unnamed(s.typeOf(in))})
		body.Output = append(body.Output, &onnx.ValueInfoProto{Name: &next, Type: unnamed(s.gives[s.Carry[in]])})
		node.Output, finals[in] = append(node.Output, final), final
	}
	live(body, map[function]bool{})
	node.Attribute = []*onnx.AttributeProto{{Name: new("body"), Type: onnx.AttributeProto_GRAPH.Enum(), G: body}}
	return node, finals
}

func identity(from, to string) *onnx.NodeProto {
	return &onnx.NodeProto{OpType: new("Identity"), Input: []string{from}, Output: []string{to}}
}
