package structure_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/proof/structure"
)

func readModel(t testing.TB, model []byte) *structure.Model {
	t.Helper()
	m, err := structure.Read(bytes.NewReader(model), int64(len(model)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// proveSketch proves a sketch as it stands.
func proveSketch(t testing.TB, text string) structure.Verdict {
	t.Helper()
	s, err := sketch.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return readModel(t, s.Graph.Marshal()).Prove(s.Axes)
}

// A proof that fails names the operator and says why.
func TestReasons(t *testing.T) {
	for _, tt := range []struct{ sketch, operator, reason string }{
		{"x[N,4]; Relu(Nonsense(x))", `Nonsense "Nonsense_0"`, "there is no rule for this operator"},
		{"x[N,4]; Add(Nonsense(x), Missing(x))", `Nonsense "Nonsense_0"`, "there is no rule for this operator"},
		{
			"x[N,4]; ReduceMean{axes=[0]}(x)", `ReduceMean "ReduceMean_0"`,
			`it reduces over dimension 0, which holds the rows of "x"`,
		},
		{
			"x[N,4]; ms.DynamicQuantizeMatMul(x, u8<4,3>, 0.1, u8(1))",
			`com.microsoft.DynamicQuantizeMatMul "DynamicQuantizeMatMul_0"`,
			"it has the largest and the smallest of all elements decide",
		},
		{
			"x[N,4] c:bool[]; If{then_branch=()=>(Relu(x)), else_branch=()=>(Softmax{axis=0}(x))}(c)",
			`Softmax "Softmax_0"`,
			`it normalises over dimension 0, which holds the rows of "x"`,
		},
		{"x[N,4]; Div(x, Cast{to=1}(Size(x)))", `Div "Div_2"`, "it computes with how many rows there are"},
		{"x[N,4]; Shape(x)", `Shape "Shape_0"`, `output "t1" depends on how many rows there are`},
		{
			"x[N,4]; Reshape(x, [-1,2])", `Reshape "Reshape_0"`,
			`output "t2" does not have one entry for each row along dimension 0`,
		},
		{"opset 6; x[N,4]; Relu(x)", "", "there are rules for operator sets 7 to 26, and this is 6"},
		{"opset 99; x[N,4]; Relu(x)", "", "there are rules for operator sets 7 to 26, and this is 99"},
		{"x[N,4]; nothing", "", `nothing computes the output "nothing"`},
		{"x[N,4]; Relu(nothing)", `Relu "Relu_0"`, `nothing computes its input "nothing"`},
		{"x[N,4]; x = Relu(x); x", `Relu "Relu_0"`, `there are two tensors "x"`},
	} {
		v := proveSketch(t, tt.sketch)
		if v.Proven || v.Operator != tt.operator || v.Reason != tt.reason {
			t.Errorf("%s:\n got %v %s: %s\nwant %s: %s", tt.sketch, v.Proven, v.Operator, v.Reason, tt.operator,
				tt.reason)
		}
	}
}

// A file that gives an operator less than it takes ends in a verdict.
func TestTooFewInputs(t *testing.T) {
	domains := strings.NewReplacer("com.microsoft.", "ms.", "ai.onnx.ml.", "ml.")
	for _, name := range structure.Operators() {
		for _, inputs := range []string{"", "[1]", "[1], [1]", "x", "x, [1]"} {
			proveSketch(t, "x[N,4]; "+domains.Replace(name)+"("+inputs+")")
		}
	}
}

// Rows are sure to meet only where an operator makes something of values from several of them, and on the way to every
// output that is then known.
func TestSureToMeet(t *testing.T) {
	const repeated = "x[N,4] w[4]; s = Shape(x); ones = ConstantOfShape(s); more = Expand(w, s); copies = " +
		"Tile(Unsqueeze(w, [0]), " +
		"Concat{axis=0}(Gather(s, [0]), [1])); n = Cast{to=1}(Gather(s, [0])); "
	for sketch, operator := range map[string]string{
		"x[N,4]; ReduceMean{axes=[0]}(x)":                                                      "ReduceMean",
		"x[N,4]; v, i = TopK{axis=0}(x, Gather(Shape(x), [0])); v":                             "TopK",
		"x[N,4,3]; Conv(Transpose{perm=[2,1,0]}(x), <2,4,2>)":                                  "Conv",
		"x[N,4,3]; MaxPool{kernel_shape=[3]}(Transpose{perm=[2,1,0]}(x))":                      "MaxPool",
		"x[N,4,3]; GlobalMaxPool(Transpose{perm=[2,1,0]}(x))":                                  "GlobalMaxPool",
		"x[N,4]; MatMul(x, Transpose(x))":                                                      "MatMul",
		"x[N,4]; Gemm{transB=1}(x, x, <1>)":                                                    "Gemm",
		"x[N,4]; y, m, v = BatchNormalization{training_mode=1}(x, <4>, <4>, <4>, <4>); y":      "BatchNormalization",
		"x[N,4]; Add(x, Softmax{axis=0}(x))":                                                   "Softmax",
		"x[N,4]; MatMul(Transpose(x), x)":                                                      "MatMul",
		"x[N,1]; Add(x, Transpose(x))":                                                         "Add",
		"x[N,3] y[N,3]; Einsum{equation=\"bi,ci->bc\"}(x, y)":                                  "Einsum",
		"x[N,3] y[N,3]; Einsum{equation=\"bi,bi->i\"}(x, y)":                                   "Einsum",
		"x[N,4]; y, s, z = DynamicQuantizeLinear(x); y":                                        "DynamicQuantizeLinear",
		"x[3,N,2]; y, h = RNN{hidden_size=4}(Transpose{perm=[1,0,2]}(x), <1,4,2>, <1,4,4>); y": "RNN",
		repeated + "ReduceMax{keepdims=0}(Add(x, ones))":                                       "ReduceMax",
		repeated + "CumSum(Where(Greater(x, 0.0), ones, copies), 0)":                           "CumSum",
		"x[N,4]; Add(ReduceMean{axes=[0]}(x), Softmax{axis=0}(x))":                             "ReduceMean",
		// An operator that mixes is reported, wherever it stands.
		"x[N,4]; Add(ReduceMean{axes=[0]}(x), Nonsense(x))":                "ReduceMean",
		"x[N,4]; Add(Nonsense(x), ReduceMean{axes=[0]}(x))":                "ReduceMean",
		"x[N,4]; Where(Nonsense(x), ReduceMean{axes=[0]}(x), Nonsense(x))": "ReduceMean",
		"x[N,4]; Nonsense(x), ReduceMean{axes=[0]}(x), Nonsense(x)":        "ReduceMean",
		// If the engine refuses the graph, it never gives an answer that could be wrong.
		"x[N,4]; y, h = RNN{hidden_size=4}(x, <1,4,2>, <1,4,4>); Add(ReduceMean{axes=[0]}(x), y)":                    "",
		"x[N,4]; y, h = RNN{hidden_size=4}(x, <1,4,2>, <1,4,4>); Add(y, ReduceMean{axes=[0]}(x))":                    "",
		"x[N,4] c:bool[]; Add(x, ReduceMax{keepdims=0}(If{then_branch=()=>(Relu(x)), else_branch=()=>(Neg(x))}(c)))": "ReduceMax",
		"x[N,4]; y, a = Loop{body=(i:i64[],c:bool[],s)=>(Identity(c), Neg(s), Relu(s))}(2, _, x); ReduceMean(y)":     "ReduceMean",
		"x[N,4]; y, a = Loop{body=(i:i64[],c:bool[],s)=>(Identity(c), Neg(s), Relu(x))}(2, _, x); ReduceMean(a)":     "ReduceMean",
		// Of an input without entries, next to one with some, nothing but garbage is made.
		"x[N,T,2] y[N,S,2]; s = Shape(x); n = Gather(s, [0]); l = Gather(s, [1]); " +
			"Reshape(Reshape(Concat{axis=2}(x, y), Concat{axis=0}(Mul(n, l), [4])), Concat{axis=0}(n, l, [4]))": "proven",
		// Graphs within a graph, whichever runs, how often, and for whatever reason.
		"x[N,4] c:bool[]; If{then_branch=()=>(Softmax{axis=0}(x)), else_branch=()=>(Relu(x))}(c)":                       "Softmax",
		"x[N,4]; If{then_branch=()=>(Softmax{axis=0}(x)), else_branch=()=>(Relu(x))}(Nonsense(x))":                      "Softmax",
		"x[N,4]; If{then_branch=()=>(Softmax{axis=0}(x)), else_branch=()=>(Relu(x))}(b(0))":                             "proven",
		"x[N,4] c:bool[]; If{then_branch=()=>(Nonsense(x)), else_branch=()=>(Nonsense(x))}(c)":                          "",
		"x[N,4] m:i64[]; Loop{body=(i:i64[],c:bool[],s)=>(Identity(c), Add(s, ReduceMean{axes=[0]}(x)))}(m, _, x)":      "ReduceMean",
		"x[N,4] m:i64[]; Loop{body=(i:i64[],c:bool[],s)=>(Identity(c), Add(s, ReduceMean{axes=[0]}(s)))}(m, _, f[0.0])": "proven",
		"x[N,4]; Loop{body=(i:i64[],c:bool[],s)=>(Less(ReduceMax{keepdims=0}(s), 3.0), Add(s, x))}(3, _, x)":            "ReduceMax",
		"x[N,4]; y, s = Loop{body=(i:i64[],c:bool[],s,r)=>(Identity(c), Nonsense(s), CumSum(r, 0))}(3, _, x, x); y, s":  "CumSum",
		"x[N,4]; y, s = Loop{body=(i:i64[],c:bool[],s,r)=>(Identity(c), Relu(s), CumSum(r, 0))}(3, _, x, x); y":         "proven",
		"x[N,T,4]; Scan{num_scan_inputs=1,scan_input_axes=[1],body=(e)=>(Sub(e, ReduceMean{axes=[0]}(e)))}(x)":          "ReduceMean",
		"x[N,4]; Scan{num_scan_inputs=1,body=(e)=>(Sub(e, ReduceMean{axes=[0]}(x)))}(Nonsense(x))":                      "ReduceMean",
		"x[N,4]; Reshape(ReduceMean{axes=[0]}(x), [-1]), Cast{to=1}(Shape(ReduceMean{axes=[0]}(x)))":                    "ReduceMean",
		// Nothing that a row holds is in values that are filled alike for each row, in how many rows there are, and in
		// where they lie.
		repeated + "Add(x, ReduceMean{axes=[0]}(ones))":                                     "",
		repeated + "Add(x, Cast{to=1}(ReduceMax{keepdims=0}(Add(more, copies))))":           "",
		repeated + "Add(x, ReduceMin{keepdims=0}(Where(Greater(ones, 1.0), more, copies)))": "",
		repeated + "Add(x, Softmax{axis=0}(Neg(more)))":                                     "",
		repeated + "MatMul(Transpose(ones), x)":                                             "",
		repeated + "Div(Mul(x, n), n)":                                                      "",
		repeated + "Clip(x, _, ReduceSum{keepdims=0}(n))":                                   "",
		"x[N,4]; Concat{axis=0}(x, x)":                                                      "",
		"x[N,4]; Add(x, Slice(x, [0], [1], [0]))":                                           "",
		"x[N,4,3]; Conv{kernel_shape=[1]}(Transpose{perm=[2,1,0]}(x), <2,4,1>)":             "",
		"x[N,4,3]; MaxPool{kernel_shape=[1]}(Transpose{perm=[2,1,0]}(x))":                   "",
		"x[N,4]; Cast{to=1}(Shape(ReduceMean{axes=[0]}(x)))":                                "",
	} {
		v := proveSketch(t, sketch)
		name, _, _ := strings.Cut(v.Operator, " ")
		if v.Proven {
			name = "proven"
		} else if !v.Mixes {
			name = ""
		}
		if name != operator {
			t.Errorf("%s: %+v, want %q", sketch, v, operator)
		}
	}
}

// An operator that mixes rows and reaches no output is no obstacle.
func TestOnlyOutputsCount(t *testing.T) {
	v := proveSketch(t, "x[N,4] w[3]; m = ReduceMean{axes=[0]}(x); Relu(x), Transpose(x), Relu(w)")
	if !v.Proven || len(v.Outputs) != 2 || v.Outputs["t1"] != 0 || v.Outputs["t2"] != 1 || v.Nodes != 4 {
		t.Errorf("%+v", v)
	}
}

func TestAxesThatDoNotFit(t *testing.T) {
	s, err := sketch.Parse("x[N,4]; Relu(x)")
	if err != nil {
		t.Fatal(err)
	}
	m := readModel(t, s.Graph.Marshal())
	for name, axes := range map[string]map[string]int{
		`the graph has no input "y"`:    {"x": 0, "y": 0},
		`input "x" has no dimension 2`:  {"x": 2},
		`input "x" has no dimension -1`: {"x": -1},
		"":                              nil,
	} {
		v := m.Prove(axes)
		if axes == nil {
			if !v.Proven || len(v.Outputs) != 0 {
				t.Errorf("without rows: %+v", v)
			}
		} else if v.Proven || v.Reason != name {
			t.Errorf("%v: %+v", axes, v)
		}
	}
	unshaped := onnxgraph.New("g").UnshapedInput("x", onnxgraph.Float).Node("Relu", []string{"x"},
		[]string{"y"}).AnyOutput("y").Marshal()
	if v := readModel(t, unshaped).Prove(map[string]int{"x": 0}); v.Proven ||
		v.Reason != `input "x" has no dimension 0` {
		t.Errorf("an input without a shape: %+v", v)
	}
}

// A model's own functions are computed as if their nodes stood where they are called.
func TestFunctions(t *testing.T) {
	initialise(t)
	for _, tt := range []struct {
		axis   int64
		proven bool
	}{{1, true}, {0, false}} {
		body := onnxgraph.New("").
			Node("Softmax", []string{"a"}, []string{"s"}, onnxgraph.RefAttr("axis", "along", onnx.AttributeProto_INT)).
			Node("Add", []string{"s", "a"}, []string{"b"})
		g := onnxgraph.New("g").Opset("mine", 1).Input("x", onnxgraph.Float, "N", 4).Output("y", onnxgraph.Float,
			"N", 4)
		g.Function("mine", "F", body, []string{"a"}, []string{"b"}, []string{"along"})
		g.DomainNode("mine", "F", []string{"x"}, []string{"y"}, onnxgraph.IntAttr("along", tt.axis))
		axes := map[string]int{"x": 0}
		v := readModel(t, g.Marshal()).Prove(axes)
		if v.Proven != tt.proven || v.Nodes != 3 {
			t.Errorf("along %d: %+v", tt.axis, v)
		}
		replaced := readModel(t, g.Marshal())
		replaced.ReplaceFunctions()
		if v := replaced.Prove(axes); v.Proven || v.Mixes || !strings.Contains(v.Reason, "may have an operator") {
			t.Errorf("along %d, where an operator may be in its place: %+v", tt.axis, v)
		}
		session, _, err := openModel(t, g.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		s := &sketch.Model{Inputs: []sketch.Input{{Name: "x", DType: onnxgraph.Float, Dims: []string{"N", "4"}}}}
		if found, ran := differs(session, s, 1, 20, v.Outputs); ran == 0 || found != "" == tt.proven {
			t.Errorf("along %d: ONNX Runtime %q in %d trials", tt.axis, found, ran)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ONNX Runtime runs the body of a function by the operator sets of the model: where the function is written for others,
// nothing is proven, and rows that are sure to meet are still sure to meet.
func TestFunctionOfAnotherOpset(t *testing.T) {
	initialise(t)
	softmax := func(g *onnxgraph.Graph) { g.Node("Softmax", []string{"x"}, []string{"y"}) }
	mean := func(g *onnxgraph.Graph) {
		g.Node("ReduceMean", []string{"x"}, []string{"m"}, onnxgraph.IntsAttr("axes", 1)).Node("Sub", []string{"x", "m"},
			[]string{"y"})
	}
	for _, tt := range []struct {
		model, function int64
		body            func(g *onnxgraph.Graph)
		within          []string // wrappers of the nodes
		proven, mixes   bool
		meet            bool // on ONNX Runtime
	}{
		{11, 13, softmax, []string{"function"}, false, true, true}, // which the function means of the last dimension alone
		{13, 11, softmax, []string{"function"}, false, false, false},
		{13, 13, softmax, []string{"function"}, true, false, false},
		{11, 11, softmax, []string{"function"}, false, true, true},
		{11, 13, softmax, []string{"If", "function"}, false, true, true},
		{13, 11, softmax, []string{"function", "If"}, false, false, false},
		{11, 13, mean, []string{"function", "function"}, false, true, true},
	} {
		g := onnxgraph.New("g").Opset("", tt.function).Input("x", onnxgraph.Float, 2, "N", 4)
		tt.body(g)
		g.AnyOutput("y")
		for _, w := range tt.within {
			g.Within(w)
		}
		g.Opset("", tt.model)
		v := readModel(t, g.Marshal()).Prove(map[string]int{"x": 1})
		if v.Proven != tt.proven || v.Mixes != tt.mixes {
			t.Errorf("%d within %d %v: %+v", tt.function, tt.model, tt.within, v)
		}
		session, _, err := openModel(t, g.Marshal())
		if err != nil {
			t.Errorf("%d within %d: %v", tt.function, tt.model, err)
			continue
		}
		s := &sketch.Model{Inputs: []sketch.Input{{
			Name: "x", DType: onnxgraph.Float, Dims: []string{"2", "N", "4"}, Axis: 1,
		}}}
		if found, ran := differs(session, s, 1, 20, nil); ran == 0 || (found != "") != tt.meet {
			t.Errorf("%d within %d %v: ONNX Runtime %q in %d trials", tt.function, tt.model, tt.within, found, ran)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// endless is a model with a function that calls itself twice.
func endless() []byte {
	body := onnxgraph.New("").Opset("mine", 1).DomainNode("mine", "F", []string{"a"}, []string{"m"}).
		DomainNode("mine", "F", []string{"m"}, []string{"b"})
	g := onnxgraph.New("g").Opset("mine", 1).Input("x", onnxgraph.Float, "N", 4).Output("y", onnxgraph.Float, "N", 4)
	g.Function("mine", "F", body, []string{"a"}, []string{"b"}, nil).DomainNode("mine", "F", []string{"x"},
		[]string{"y"})
	return g.Marshal()
}

// A function that calls itself, and graphs within graphs without end, are given up.
func TestNoEnd(t *testing.T) {
	v := readModel(t, endless()).Prove(map[string]int{"x": 0})
	if v.Proven || !strings.Contains(v.Reason, "graphs deep") {
		t.Errorf("%+v", v)
	}
}
