package structure_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/pipeline"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// mergeVariable makes TestMergedGraphs long: seed,pipelines.
const mergeVariable = "WEFT_MERGE_SEARCH"

// TestMergedGraphs has random pipelines of random graphs, of operator sets 7 to 24: the merged model answers what the
// steps answer one after the other, and its rows are proven independent only where those of all steps are.
func TestMergedGraphs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	seed, pipelines := uint64(40), 60
	if race.Enabled {
		pipelines = 10
	}
	if long := os.Getenv(mergeVariable); long != "" {
		if _, err := fmt.Sscanf(long, "%d,%d", &seed, &pipelines); err != nil {
			t.Fatal(err)
		}
	}
	initialise(t)
	g := &generator{rng: rand.New(rand.NewPCG(seed, 40)), dir: t.TempDir(), more: []int{7, 8, 24}}
	g.readRecipes(t)
	// ONNX Runtime (1.30) ends its process on equations that do not fit, and on dequantized values that a body captures.
	// Random values differ each time, and what it infers of a scalar's PRelu is not so.
	useless := regexp.MustCompile("Einsum|Random|DequantizeLinear|PRelu")
	g.recipes = slices.DeleteFunc(g.recipes, func(r recipe) bool {
		return slices.ContainsFunc(r.forms, func(f *template.Template) bool { return useless.MatchString(f.Root.String()) })
	})
	if os.Getenv(mergeVariable) != "" {
		g.trace = filepath.Join(os.TempDir(), fmt.Sprintf("merge-search-%d.txt", seed))
	}
	counts := map[string]int{}
	for counts["pipelines"] < pipelines {
		c := &chain{g: g, values: map[string]genValue{}, spec: &modelrepo.Pipeline{Outputs: map[string]string{}}}
		for range 2 + g.rng.IntN(2) {
			c.step(t)
		}
		counts[c.judge(t)]++
		counts["pipelines"]++
		c.close()
	}
	t.Logf("%v", counts)
	if counts["equal, proven"] < pipelines/20 || counts["equal"] < pipelines/4 {
		t.Errorf("%v of %d pipelines: the search is of no use", counts, pipelines)
	}
}

// chain is a random pipeline.
type chain struct {
	g        *generator
	spec     *modelrepo.Pipeline
	texts    []string
	models   []*onnx.ModelProto
	sessions []*ort.Session
	graphs   []*structure.Model
	inputs   []sketch.Input // of the pipeline
	ops      []string
	values   map[string]genValue // by source: what steps give
}

func (c *chain) close() {
	for _, s := range c.sessions {
		s.Close()
	}
}

// step adds a random step, that gets some outputs of earlier ones.
func (c *chain) step(t *testing.T) {
	g := c.g
	for {
		g.start()
		given := map[string]string{}
		for _, from := range slices.Sorted(maps.Keys(c.values)) {
			if len(c.values) > 1 && g.rng.IntN(3) == 0 {
				continue
			}
			v := c.values[from]
			var dims []string
			rows := false
			for i, n := range v.dims {
				d := strconv.FormatInt(n, 10)
				if v.dims3[i] != n {
					if rows || n != 2 || v.dims3[i] != 3 {
						dims = nil
						break
					}
					d, rows = "N", true
				} else if n == 2 && g.rng.IntN(2) == 0 {
					d = "T"
				}
				dims = append(dims, d)
			}
			if len(dims) != len(v.dims) {
				continue // of several rows' sizes
			}
			name := fmt.Sprintf("y%d", len(given))
			g.declare(name, sketchType(v.dtype), dims)
			given[name] = from
		}
		if len(c.values) > 0 && len(given) == 0 {
			given = nil
		}
		for statements := 2 + g.rng.IntN(4); statements > 0; statements-- {
			for range 6 {
				if g.statement() {
					break
				}
			}
		}
		grown := ""
		if g.rng.IntN(3) == 0 {
			grown = g.grow()
		}
		if g.made > 0 && c.keep(t, given, grown) {
			return
		}
	}
}

// grow makes a value that is an input twice along an open dimension, and returns the input; "": there is none.
func (g *generator) grow() string {
	for _, i := range g.rng.Perm(len(g.decls)) {
		name, rest, _ := strings.Cut(g.decls[i], ":")
		_, rest, _ = strings.Cut(rest, "[")
		axis := slices.Index(strings.Split(strings.TrimSuffix(rest, "]"), ","), "T")
		if axis >= 0 && g.add(fmt.Sprintf("Concat{axis=%d}(%s, %s)", axis, name, name), 1) {
			return name
		}
	}
	return ""
}

func sketchType(d tensor.DType) string {
	for _, name := range slices.Sorted(maps.Keys(sketch.Types)) {
		if runTypes[sketch.Types[name]] == d {
			return name
		}
	}
	panic(d)
}

// keep makes a step of the generator's graph; false: it is of no use. If grown names an input, the last value is that
// input twice.
func (c *chain) keep(t *testing.T, given map[string]string, grown string) bool {
	g := c.g
	var outs []string
	for i := range min(g.made, 2) {
		outs = append(outs, g.pool[len(g.pool)-1-i].name)
	}
	g.prune(outs)
	if text := strings.Join(g.lines, ""); len(given) > 0 && !strings.Contains(text, "y") {
		return false
	}
	text := g.text(outs)
	wrappers := g.wrappers(text)
	s, session, graph, err := g.open(text, wrappers...)
	if err != nil {
		return false
	}
	name := fmt.Sprintf("s%d", len(c.spec.Steps))
	model := &onnx.ModelProto{}
	if err := proto.Unmarshal(s.Graph.Marshal(), model); err != nil {
		t.Fatal(err)
	}
	step := modelrepo.Step{
		Name: name, Model: name, Version: 1, Inputs: map[string]string{}, Repeat: 1, Of: modelrepo.Version{Dir: name},
	}
	for _, in := range s.Inputs {
		own := in.Name
		if step.Inputs[own] = given[own]; step.Inputs[own] == "" {
			in.Name = name + "_" + own
			step.Inputs[own] = in.Name
			c.inputs = append(c.inputs, in)
		}
	}
	for k, out := range outs {
		i := slices.IndexFunc(g.pool, func(v genValue) bool { return v.name == out })
		out = model.GetGraph().GetOutput()[k].GetName() // a wrapper calls it otherwise
		outs[k] = out
		c.values[name+"."+out] = g.pool[i]
		c.spec.Outputs[fmt.Sprintf("%s_%d", name, k)] = name + "." + out
	}
	c.repeat(&step, s.Inputs, outs, grown)
	for _, in := range model.GetGraph().GetInput() {
		if in.GetName() == grown && g.rng.IntN(2) == 0 {
			declareLong(model.GetGraph().GetOutput()[0], in)
		}
	}
	c.spec.Steps = append(c.spec.Steps, step)
	c.texts = append(c.texts, fmt.Sprintf("%s: %v %v %d times, carries %v: %s", name, wrappers, step.Inputs, step.Repeat,
		step.Carry, text))
	c.models, c.ops = append(c.models, model), append(c.ops, s.Ops...)
	c.sessions, c.graphs = append(c.sessions, session), append(c.graphs, graph)
	return true
}

// declareLong has a model say that an output has another length than an input where that is open first.
func declareLong(out, in *onnx.ValueInfoProto) {
	out.Type = proto.CloneOf(in.GetType())
	for _, d := range out.GetType().GetTensorType().GetShape().GetDim() {
		if d.GetDimParam() == "T" {
			d.Value = &onnx.TensorShapeProto_Dimension_DimParam{DimParam: "U"}
			return
		}
	}
}

// repeat has a step run more than once, if one of its outputs is like one of its inputs, or longer.
func (c *chain) repeat(step *modelrepo.Step, inputs []sketch.Input, outs []string, grown string) {
	if grown != "" {
		step.Repeat, step.Carry = 2+c.g.rng.IntN(2), map[string]string{grown: outs[0]}
		in := c.g.pool[slices.IndexFunc(c.g.pool, func(v genValue) bool { return v.name == grown })]
		long := c.values[step.Name+"."+outs[0]]
		for i, n := range in.dims {
			if long.dims[i] != n {
				long.dims[i], long.dims3[i] = n<<step.Repeat, n<<step.Repeat
			}
		}
		for _, out := range outs[1:] {
			delete(c.values, step.Name+"."+out) // its sizes are not known
		}
		return
	}
	for _, in := range inputs {
		for _, out := range outs {
			a := c.g.pool[slices.IndexFunc(c.g.pool, func(v genValue) bool { return v.name == in.Name })]
			b := c.values[step.Name+"."+out]
			if a.dtype == b.dtype && slices.Equal(a.dims, b.dims) && slices.Equal(a.dims3, b.dims3) && c.g.rng.IntN(2) == 0 {
				step.Repeat, step.Carry = 2+c.g.rng.IntN(3), map[string]string{in.Name: out}
				return
			}
		}
	}
}

// judge compares the merged model with the steps, and says how that ended.
func (c *chain) judge(t *testing.T) string {
	t.Helper()
	about := strings.Join(c.texts, "\n")
	merged, faults := pipeline.Merge(c.spec, c.models)
	if len(faults) > 0 {
		if !strings.Contains(faults[0].Message, "expected models of the same operator sets") {
			t.Errorf("%s\n%v", about, faults)
		}
		return "refused"
	}
	if c.g.trace != "" {
		if err := os.WriteFile(c.g.trace, []byte(about), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := proto.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	if c.g.trace != "" {
		if err := os.WriteFile(c.g.trace+".onnx", text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	session, graph, err := openModel(t, text)
	if err != nil {
		if strings.Contains(err.Error(), "Could not find an implementation") && c.rewritten() {
			return "refused" // ONNX Runtime lacks newer forms of some operators
		}
		t.Errorf("%s\ncannot be opened: %v", about, err)
		return "wrong"
	}
	defer session.Close()
	verdict, proven := c.proven(session.Signature(), graph)
	result, rounded := "equal", ""
	if verdict.Proven {
		found, _ := differs(session, &sketch.Model{Inputs: c.inputs, Ops: c.ops}, c.g.rng.Uint64(), 4, verdict.Outputs)
		if found != "" {
			t.Errorf("%s\nthe merged graph is proven, and yet: %s", about, found)
		}
		result = "equal, proven"
		// A step that gets a constant from another is proven with that, and may not be with any value.
		if !proven {
			result = "equal, proven further"
		}
	}
	ran := 0
	for range 4 {
		values := c.draw()
		want, err := c.chained(values)
		got, mergedErr := run(session, values)
		if err != nil {
			continue // as an index that is out of bounds
		}
		if mergedErr != nil {
			// Of a Scan's body less is inferred with newer operators; and ONNX Runtime (1.30) loses the output of an If in a
			// Loop if its condition is a constant outside.
			if strings.Contains(mergedErr.Error(), "Subgraph must have the shape set") && c.rewritten() ||
				strings.Contains(mergedErr.Error(), "Missing Input") && strings.Contains(about, "If{") {
				return "refused"
			}
			t.Errorf("%s\nthe merged model fails: %v", about, mergedErr)
			return "wrong"
		}
		ran++
		for name, from := range c.spec.Outputs {
			a, b := got[name], want[from]
			if bytes.Equal(a.Data, b.Data) && slices.Equal(a.Shape, b.Shape) && a.DType == b.DType {
				continue
			}
			if why := difference(a, b); why != "" {
				t.Errorf("%s\n%s: %s", about, name, why)
				return "wrong"
			}
			rounded = ", rounded"
		}
	}
	if ran == 0 {
		return "never ran"
	}
	return result + rounded
}

// rewritten reports whether steps were of different operator sets.
func (c *chain) rewritten() bool {
	opset := func(text string) string {
		_, rest, _ := strings.Cut(text, "opset ")
		opset, _, _ := strings.Cut(rest, ";")
		return opset
	}
	return slices.ContainsFunc(c.texts, func(text string) bool { return opset(text) != opset(c.texts[0]) })
}

// proven proves the merged graph, and the steps one after the other.
func (c *chain) proven(sig *tensor.Signature, merged *structure.Model) (verdict structure.Verdict, steps bool) {
	axes := map[string]int{}
	for _, in := range c.inputs {
		if in.Axis >= 0 {
			axes[in.Name] = in.Axis
		}
	}
	known := maps.Clone(axes)
	maps.DeleteFunc(axes, func(name string, _ int) bool { return sig.Input(name) < 0 }) // nothing needs it
	verdict, steps = merged.Prove(axes), true
	for i, s := range c.spec.Steps {
		own := map[string]int{}
		for in, from := range s.Inputs {
			if axis, is := known[from]; is {
				own[in] = axis
			}
		}
		v := c.graphs[i].Prove(own)
		steps = steps && v.Proven
		for out, axis := range v.Outputs {
			known[s.Name+"."+out] = axis
		}
	}
	return verdict, steps
}

// draw makes a value of each input of the pipeline, of three rows.
func (c *chain) draw() map[string]tensor.Tensor {
	values := map[string]tensor.Tensor{}
	p := []palette{ordinary, ordinary, negatives}[c.g.rng.IntN(3)]
	for _, in := range c.inputs {
		v := tensor.Tensor{DType: runTypes[in.DType], Shape: tensor.Shape{}}
		for _, d := range in.Dims {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				n = map[string]int64{"N": 3}[d]
			}
			v.Shape = append(v.Shape, cmp.Or(n, 2))
		}
		n, _ := v.Shape.Elements()
		for range n {
			v.Data = append(v.Data, element(c.g.rng, in.DType, p)...)
		}
		values[in.Name] = v
	}
	return values
}

// chained runs the steps one after the other.
func (c *chain) chained(values map[string]tensor.Tensor) (map[string]tensor.Tensor, error) {
	all := maps.Clone(values)
	for i, s := range c.spec.Steps {
		in := map[string]tensor.Tensor{}
		for name, from := range s.Inputs {
			in[name] = all[from]
		}
		var out map[string]tensor.Tensor
		for range s.Repeat {
			var err error
			if out, err = run(c.sessions[i], in); err != nil {
				return nil, err
			}
			for name, from := range s.Carry {
				in[name] = out[from]
			}
		}
		for name, v := range out {
			all[s.Name+"."+name] = v
		}
	}
	return all, nil
}

// run runs a session.
func run(session *ort.Session, values map[string]tensor.Tensor) (map[string]tensor.Tensor, error) {
	sig := session.Signature()
	b := tensor.NewBatch(len(sig.Inputs), len(sig.Outputs), nil)
	defer b.Free()
	for i, in := range sig.Inputs {
		v, has := values[in.Name]
		if !has {
			return nil, errors.New("no value of " + in.Name)
		}
		copy(b.Input(i, v.DType, v.Shape, len(v.Data)), v.Data)
	}
	if err := session.Run(context.Background(), b); err != nil {
		return nil, err
	}
	out := map[string]tensor.Tensor{}
	for i, o := range b.Outputs {
		out[sig.Outputs[i].Name] = tensor.Tensor{DType: o.DType, Shape: slices.Clone(o.Shape), Data: bytes.Clone(o.Data)}
	}
	return out, nil
}
