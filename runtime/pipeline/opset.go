package pipeline

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// The standard operator sets between which steps are rewritten: the tables below know their operators.
const oldest, newest = 7, 26

// unify has the models of all steps use one version of each operator set, the newest of them.
func (m *merger) unify(models []*onnx.ModelProto) {
	target := map[string]int64{}
	for _, model := range models {
		for domain, version := range imports(model.GetOpsetImport()) {
			target[domain] = max(target[domain], version)
		}
	}
	for i, model := range models {
		r := &rewriter{from: imports(model.GetOpsetImport()), to: target, own: functionsOf(model)}
		graph := model.GetGraph()
		r.graph(graph)
		for _, f := range model.GetFunctions() {
			of := &rewriter{from: imports(f.GetOpsetImport()), to: target, own: r.own, names: r.names}
			f.Node = of.nodes(f.GetNode())
			f.OpsetImport = nil
			for domain := range of.from {
				f.OpsetImport = append(f.OpsetImport, &onnx.OperatorSetIdProto{
					Domain: new(domain), Version: new(cmp.Or(target[domain], of.from[domain])),
				})
			}
			r.faults = append(r.faults, of.faults...)
		}
		slices.Sort(r.faults)
		for _, why := range slices.Compact(r.faults) {
			m.fault(fmt.Sprintf("steps[%d].model", i), "%s; expected models of the same operator sets: export model %s again, "+
				"for opset %d", why, m.Steps[i].Model, target[""])
		}
	}
	for domain, version := range target {
		m.merged.OpsetImport = append(m.merged.OpsetImport, &onnx.OperatorSetIdProto{
			Domain: new(domain), Version: new(version),
		})
	}
	slices.SortFunc(m.merged.GetOpsetImport(), func(a, b *onnx.OperatorSetIdProto) int {
		return cmp.Compare(a.GetDomain(), b.GetDomain())
	})
}

// imports are versions by domain; "" is the standard one.
func imports(sets []*onnx.OperatorSetIdProto) map[string]int64 {
	all := map[string]int64{}
	for _, set := range sets {
		domain := set.GetDomain()
		if domain == "ai.onnx" {
			domain = ""
		}
		all[domain] = set.GetVersion()
	}
	return all
}

// rewriter writes nodes for newer operator sets.
type rewriter struct {
	from, to map[string]int64
	own      map[function]bool // of the model: no version changes what they mean
	made     []*onnx.NodeProto // in the place of a node
	names    int
	faults   []string
}

func (r *rewriter) graph(g *onnx.GraphProto) { g.Node = r.nodes(g.GetNode()) }

func (r *rewriter) nodes(nodes []*onnx.NodeProto) (all []*onnx.NodeProto) {
	for _, n := range nodes {
		for g := range subgraphs(n) {
			r.graph(g)
		}
		r.made = nil
		kept := r.node(n)
		all = append(all, r.made...)
		if kept {
			all = append(all, n)
		}
	}
	return all
}

// node changes a node, and reports whether it stays.
func (r *rewriter) node(n *onnx.NodeProto) bool {
	domain := n.GetDomain()
	if domain == "ai.onnx" {
		domain = ""
	}
	from, to := r.from[domain], r.to[domain]
	if from == to || from == 0 || r.own[callOf(n)] { // a domain of functions may have no version
		return true
	}
	if domain != "" || from < oldest || to > newest {
		r.refuse(n, "of version %d of operator set %q is not known to mean the same in version %d", from, domain, to)
		return true
	}
	stays := true
	for _, c := range changes[n.GetOpType()] {
		if from < c.at && c.at <= to {
			if c.rewrite == nil {
				r.refuse(n, "means something else from opset %d on, and the model has opset %d", c.at, from)
				return true
			}
			stays = c.rewrite(r, n) && stays
		}
	}
	return stays
}

func (r *rewriter) refuse(n *onnx.NodeProto, format string, args ...any) {
	r.faults = append(r.faults, n.GetOpType()+" "+fmt.Sprintf(format, args...))
}

// change is a version of an operator set from which on an operator means or takes something else. Without rewrite,
// nobody here knows what the node would have to be. Versions that allow more, such as further types of elements, or
// attributes whose default is what was before, are no changes.
//
// Source: the operators' history in ONNX (docs/Changelog.md of onnx/onnx 1.23), compared version by version.
type change struct {
	at int64
	// rewrite changes the node, and reports whether it is to stay.
	rewrite func(r *rewriter, n *onnx.NodeProto) bool
}

var changes = map[string][]change{
	"BatchNormalization": {{9, only("spatial", 1)}, {14, oneOutput}},
	"Clip":               {{11, bounds}},
	"DFT":                {{20, nil}},
	"Dropout":            {{10, oneOutput}, {12, dropped}},
	"GridSample":         {{20, modes}},
	"GroupNormalization": {{21, nil}},
	"Hardmax":            {{13, flattened}},
	"LogSoftmax":         {{13, flattened}},
	"Pad":                {{11, padding}},
	"ReduceL1":           {{11, counted}, {18, ints("axes")}},
	"ReduceL2":           {{11, counted}, {18, ints("axes")}},
	"ReduceLogSum":       {{11, counted}, {18, ints("axes")}},
	"ReduceLogSumExp":    {{11, counted}, {18, ints("axes")}},
	"ReduceMax":          {{11, counted}, {18, ints("axes")}},
	"ReduceMean":         {{11, counted}, {18, ints("axes")}},
	"ReduceMin":          {{11, counted}, {18, ints("axes")}},
	"ReduceProd":         {{11, counted}, {18, ints("axes")}},
	"ReduceSum":          {{11, counted}, {13, ints("axes")}},
	"ReduceSumSquare":    {{11, counted}, {18, ints("axes")}},
	"Resize":             {{11, nil}, {13, nil}},
	"RoiAlign":           {{16, set("coordinate_transformation_mode", "output_half_pixel")}},
	"Scan":               {{9, nil}},
	"Scatter":            {{11, called("ScatterElements")}},
	"Slice":              {{10, counted}, {10, ints("starts", "ends", "axes")}},
	"Softmax":            {{13, flattened}},
	"Split":              {{13, ints("split")}, {18, parts}},
	"Squeeze":            {{11, counted}, {13, ints("axes")}},
	"TopK":               {{10, ints("k")}},
	"Unsqueeze":          {{11, counted}, {13, ints("axes")}},
	"Upsample":           {{9, nil}, {10, nil}},
}

// take removes an attribute and returns it; nil: there is none.
func (r *rewriter) take(n *onnx.NodeProto, name string) *onnx.AttributeProto {
	i := slices.IndexFunc(n.GetAttribute(), func(a *onnx.AttributeProto) bool { return a.GetName() == name })
	if i < 0 {
		return nil
	}
	a := n.GetAttribute()[i]
	if a.GetRefAttrName() != "" {
		r.refuse(n, "has its %s from the call of a function", name)
	}
	n.Attribute = slices.Delete(n.GetAttribute(), i, i+1)
	return a
}

// constant makes a constant of 64-bit integers before the node, and returns its name.
func (r *rewriter) constant(dims []int64, values ...int64) string {
	t := &onnx.TensorProto{DataType: new(int32(onnx.TensorProto_INT64)), Dims: dims}
	for _, v := range values {
		t.RawData = binary.LittleEndian.AppendUint64(t.GetRawData(), uint64(v))
	}
	return r.constantOf(t)
}

func (r *rewriter) constantOf(t *onnx.TensorProto) string {
	return r.add("Constant", nil, &onnx.AttributeProto{Name: new("value"), Type: onnx.AttributeProto_TENSOR.Enum(), T: t})
}

// add makes a node of one output before the node that is being written, and returns the name of the output.
func (r *rewriter) add(op string, inputs []string, attributes ...*onnx.AttributeProto) string {
	r.names++
	name := fmt.Sprintf("weft rewritten %d", r.names)
	r.made = append(r.made, &onnx.NodeProto{
		OpType: &op, Input: inputs, Output: []string{name}, Attribute: attributes,
	})
	return name
}

// ints makes attributes inputs, after the inputs that the node has.
func ints(names ...string) func(*rewriter, *onnx.NodeProto) bool {
	return func(r *rewriter, n *onnx.NodeProto) bool {
		inputs := n.GetInput()
		for _, name := range names {
			a := r.take(n, name)
			switch {
			case a == nil || a.GetType() == onnx.AttributeProto_INTS && len(a.GetInts()) == 0:
				inputs = append(inputs, "")
			case a.GetType() == onnx.AttributeProto_INT:
				inputs = append(inputs, r.constant([]int64{1}, a.GetI()))
			default:
				inputs = append(inputs, r.constant([]int64{int64(len(a.GetInts()))}, a.GetInts()...))
			}
		}
		for len(inputs) > 0 && inputs[len(inputs)-1] == "" {
			inputs = inputs[:len(inputs)-1]
		}
		n.Input = inputs
		return true
	}
}

// counted refuses axes that are counted from the end, which older operator sets do not define.
func counted(r *rewriter, n *onnx.NodeProto) bool {
	for _, a := range n.GetAttribute() {
		if a.GetName() == "axes" && slices.ContainsFunc(a.GetInts(), func(axis int64) bool { return axis < 0 }) {
			r.refuse(n, "counts axes from the end, which opset %d does not define", r.from[""])
		}
	}
	return true
}

// only refuses an attribute that is gone, unless it has the value that always holds now.
func only(name string, value int64) func(*rewriter, *onnx.NodeProto) bool {
	return func(r *rewriter, n *onnx.NodeProto) bool {
		if a := r.take(n, name); a != nil && a.GetI() != value {
			r.refuse(n, "has %s=%d, which newer opsets do not have", name, a.GetI())
		}
		return true
	}
}

// oneOutput refuses a node whose further outputs are others now.
func oneOutput(r *rewriter, n *onnx.NodeProto) bool {
	for i, name := range n.GetOutput() {
		if i > 0 && name != "" {
			r.refuse(n, "gives %q, which newer opsets do not give, or otherwise", name)
		}
	}
	n.Output = n.GetOutput()[:min(1, len(n.GetOutput()))]
	return true
}

// dropped leaves out how much is dropped in training: a server does not train. What the mask says then has changed.
func dropped(r *rewriter, n *onnx.NodeProto) bool {
	_ = r.take(n, "ratio")
	return oneOutput(r, n)
}

// set gives an attribute the value that it had by default.
func set(name, value string) func(*rewriter, *onnx.NodeProto) bool {
	return func(_ *rewriter, n *onnx.NodeProto) bool {
		if !slices.ContainsFunc(n.GetAttribute(), func(a *onnx.AttributeProto) bool { return a.GetName() == name }) {
			n.Attribute = append(n.GetAttribute(), &onnx.AttributeProto{
				Name: &name, Type: onnx.AttributeProto_STRING.Enum(), S: []byte(value),
			})
		}
		return true
	}
}

func called(name string) func(*rewriter, *onnx.NodeProto) bool {
	return func(_ *rewriter, n *onnx.NodeProto) bool {
		n.OpType = &name
		return true
	}
}

// modes are called linear and cubic now.
func modes(r *rewriter, n *onnx.NodeProto) bool {
	mode := "linear"
	if a := r.take(n, "mode"); a != nil {
		mode = map[string]string{"bilinear": "linear", "bicubic": "cubic"}[string(a.GetS())]
		mode = cmp.Or(mode, string(a.GetS()))
	}
	return set("mode", mode)(r, n)
}

// parts says into how many parts a Split without sizes cuts.
func parts(_ *rewriter, n *onnx.NodeProto) bool {
	if len(n.GetInput()) < 2 || n.GetInput()[1] == "" {
		n.Attribute = append(n.GetAttribute(), &onnx.AttributeProto{
			Name: new("num_outputs"), Type: onnx.AttributeProto_INT.Enum(), I: new(int64(len(n.GetOutput()))),
		})
	}
	return true
}

// like makes a constant of the type that the node's first input has.
func (r *rewriter) like(n *onnx.NodeProto, value float32) string {
	if r.to[""] < 15 {
		r.refuse(n, "has a constant whose type opset %d cannot tell", r.to[""])
	}
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(value))
	c := r.constantOf(&onnx.TensorProto{DataType: new(int32(onnx.TensorProto_FLOAT)), RawData: raw})
	return r.add("CastLike", []string{c, n.GetInput()[0]})
}

// bounds makes the bounds of Clip inputs.
func bounds(r *rewriter, n *onnx.NodeProto) bool {
	low, high := r.take(n, "min"), r.take(n, "max")
	for _, a := range []*onnx.AttributeProto{low, high} {
		bound := ""
		if a != nil {
			bound = r.like(n, a.GetF())
		}
		n.Input = append(n.GetInput(), bound)
	}
	return true
}

// padding makes the widths and the value of Pad inputs.
func padding(r *rewriter, n *onnx.NodeProto) bool {
	value := r.take(n, "value")
	ints("pads")(r, n)
	if value.GetF() != 0 {
		n.Input = append(n.GetInput(), r.like(n, value.GetF()))
	}
	return true
}

// flattened has Softmax and its like take a matrix, as they did: all dimensions from axis on are one.
func flattened(r *rewriter, n *onnx.NodeProto) bool {
	axis := int64(1)
	if a := r.take(n, "axis"); a != nil {
		axis = a.GetI()
	}
	integer := func(name string, value int64) *onnx.AttributeProto {
		return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_INT.Enum(), I: &value}
	}
	x := n.GetInput()[0]
	shape := r.add("Shape", []string{x})
	matrix := r.add("Flatten", []string{x}, integer("axis", axis))
	matrix = r.add(n.GetOpType(), []string{matrix}, integer("axis", 1))
	r.add("Reshape", []string{matrix, shape})
	r.made[len(r.made)-1].Output = n.GetOutput()
	return false
}
