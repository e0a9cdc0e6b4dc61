package host_test

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
)

// hostile is a model x [?, 4] → y [?, 4] whose rows meet under some condition: y = x + the mean over all rows of (x + 1
// where the condition holds, else 0).
type hostile struct {
	// gate adds inputs, and nodes that make the condition "is", one or one for each number.
	gate func(g *onnxgraph.Graph)
	ids  bool // x are integers
	// bring returns the inputs of request i besides x, and x returns that input; nil for none and ordinary numbers.
	bring func(i int) []tensor.Tensor
	x     func(i int) []float32
	// holds is the condition.
	holds func(i int, v float32) bool
}

func (m *hostile) marshal() []byte {
	g := onnxgraph.New("hostile")
	if m.ids {
		g.Input("ids", onnxgraph.Int64, "batch", 4)
		g.Node("Cast", []string{"ids"}, []string{"x"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
	} else {
		g.Input("x", onnxgraph.Float, "batch", 4)
	}
	m.gate(g)
	g.InitFloats("one", nil, 1)
	g.InitFloats("zero", nil, 0)
	g.Node("Add", []string{"x", "one"}, []string{"more"})
	g.Node("Where", []string{"is", "more", "zero"}, []string{"open"})
	g.Node("ReduceMean", []string{"open"}, []string{"mean"}, onnxgraph.IntsAttr("axes", 0))
	g.Node("Add", []string{"x", "mean"}, []string{"y"})
	g.Output("y", onnxgraph.Float, "batch", 4)
	return g.Marshal()
}

// call is request i of one row, and its answer by itself.
func (m *hostile) call(v *catalog.Version, i int) (c *catalog.Call, want []float32) {
	x := []float32{float32(i), 1, 2, -1}
	if m.x != nil {
		x = m.x(i)
	}
	shape := tensor.Shape{1, 4}
	inputs := []tensor.Tensor{floats(shape, x...)}
	if m.ids {
		inputs[0] = int64s(shape, int64(x[0]), int64(x[1]), int64(x[2]), int64(x[3]))
	}
	if m.bring != nil {
		inputs = append(inputs, m.bring(i)...)
	}
	for _, n := range x {
		y := n
		if m.holds(i, n) {
			y += n + 1
		}
		want = append(want, y)
	}
	return &catalog.Call{Version: v, Rows: 1, Inputs: inputs}, want
}

// when makes the condition by comparing a value with a constant.
func when(g *onnxgraph.Graph, op, value string, bound float32) {
	g.InitFloats("bound", nil, bound)
	g.Node(op, []string{value, "bound"}, []string{"is"})
}

// equals makes the condition by comparing an integer input, which it adds.
func equals(name string, bad int64) func(g *onnxgraph.Graph) {
	return func(g *onnxgraph.Graph) {
		g.Input(name, onnxgraph.Int64)
		g.InitInt64s("bad", nil, bad)
		g.Node("Equal", []string{name, "bad"}, []string{"is"})
	}
}

var (
	modesBrought = []int64{4242, 1, 2}
	ratesBrought = []float32{0.5, 10.5, 50}
)

var hostiles = map[string]hostile{
	"not eval": {
		gate: func(g *onnxgraph.Graph) {
			g.Input("eval", onnxgraph.Bool)
			g.Node("Not", []string{"eval"}, []string{"is"})
		},
		bring: func(i int) []tensor.Tensor {
			return []tensor.Tensor{{DType: tensor.Bool, Shape: tensor.Shape{}, Data: []byte{byte(i % 2)}}}
		},
		holds: func(i int, _ float32) bool { return i%2 == 0 },
	},
	"a mode": {
		gate:  equals("mode", 1),
		bring: func(i int) []tensor.Tensor { return []tensor.Tensor{int64s(tensor.Shape{}, modesBrought[i%3])} },
		holds: func(i int, _ float32) bool { return modesBrought[i%3] == 1 },
	},
	"a mode that no example has": {
		gate:  equals("mode", 4242),
		bring: func(i int) []tensor.Tensor { return []tensor.Tensor{int64s(tensor.Shape{}, modesBrought[i%3])} },
		holds: func(i int, _ float32) bool { return modesBrought[i%3] == 4242 },
	},
	"a rate": {
		gate: func(g *onnxgraph.Graph) {
			g.Input("rate", onnxgraph.Float)
			when(g, "Greater", "rate", 10)
		},
		bring: func(i int) []tensor.Tensor { return []tensor.Tensor{floats(tensor.Shape{}, ratesBrought[i%3])} },
		holds: func(i int, _ float32) bool { return ratesBrought[i%3] > 10 },
	},
	"a rate that no example has": {
		gate: func(g *onnxgraph.Graph) {
			g.Input("rate", onnxgraph.Float)
			g.InitFloats("bad", nil, 10.5)
			g.Node("Equal", []string{"rate", "bad"}, []string{"is"})
		},
		bring: func(i int) []tensor.Tensor { return []tensor.Tensor{floats(tensor.Shape{}, ratesBrought[i%3])} },
		holds: func(i int, _ float32) bool { return ratesBrought[i%3] == 10.5 },
	},
	"a large number": {
		gate: func(g *onnxgraph.Graph) {
			g.Node("Abs", []string{"x"}, []string{"size"})
			when(g, "Greater", "size", 50)
		},
		holds: func(_ int, v float32) bool { return math.Abs(float64(v)) > 50 },
	},
	"a negative number": {
		gate:  func(g *onnxgraph.Graph) { when(g, "Less", "x", -5) },
		x:     func(i int) []float32 { return []float32{float32(-(i % 20)), 1, 2, float32(i)} },
		holds: func(_ int, v float32) bool { return v < -5 },
	},
	"an id above 100": {
		ids:   true,
		gate:  func(g *onnxgraph.Graph) { when(g, "Greater", "x", 100) },
		holds: func(_ int, v float32) bool { return v > 100 },
	},
	"a negative id": {
		ids:   true,
		gate:  func(g *onnxgraph.Graph) { when(g, "Less", "x", 0) },
		x:     func(i int) []float32 { return []float32{float32(3 - i%9), 1, 2, float32(i)} },
		holds: func(_ int, v float32) bool { return v < 0 },
	},
	"a NaN": {
		gate: func(g *onnxgraph.Graph) { g.Node("IsNaN", []string{"x"}, []string{"is"}) },
		x: func(i int) []float32 {
			if i%16 == 3 {
				return []float32{1, 2, float32(math.NaN()), float32(i)}
			}
			return []float32{1, 2, 3, float32(i)}
		},
		holds: func(_ int, v float32) bool { return v != v },
	},
}

// TestHostileGraphs: each is served with default settings and asked 256 times at once with mixed values. No answer has
// anything of another request's row.
func TestHostileGraphs(t *testing.T) {
	for name, m := range hostiles {
		t.Run(name, func(t *testing.T) {
			h := onnxHost(t, onnxModel(t, m.marshal()))
			v := h.Snapshot().Model("m").Version(1)
			if v.State != catalog.Ready {
				t.Fatal(v.Cause)
			}
			t.Logf("batched %v: %s", v.Batching.Batched, v.Batching.Reason)
			for range 6 {
				together(t, h, 256, func(i int) (*catalog.Call, []float32) { return m.call(v, i) })
			}
		})
	}
}

// TestHostileTrilu has a model y = T·x, where T [rows, rows] is ones from diagonal 100·(5-k) up: rows are independent
// as long as k is below 5.
func TestHostileTrilu(t *testing.T) {
	g := onnxgraph.New("triangle")
	g.Input("x", onnxgraph.Float, "batch", 4)
	g.Input("k", onnxgraph.Int64)
	g.Node("Shape", []string{"x"}, []string{"rows"}, onnxgraph.IntAttr("end", 1))
	g.Node("Concat", []string{"rows", "rows"}, []string{"square"}, onnxgraph.IntAttr("axis", 0))
	g.Node("ConstantOfShape", []string{"square"}, []string{"ones"},
		onnxgraph.TensorAttr("value", onnxgraph.Float, []int64{1}, onnxgraph.FloatBytes([]float32{1})))
	g.InitInt64s("hundred", nil, 100)
	g.InitInt64s("five", nil, 5)
	g.Node("Sub", []string{"five", "k"}, []string{"below"})
	g.Node("Mul", []string{"below", "hundred"}, []string{"diagonal"})
	g.Node("Trilu", []string{"ones", "diagonal"}, []string{"triangle"}, onnxgraph.IntAttr("upper", 1))
	g.Node("MatMul", []string{"triangle", "x"}, []string{"y"})
	g.Output("y", onnxgraph.Float, "batch", 4)
	h := onnxHost(t, onnxModel(t, g.Marshal()))
	v := h.Snapshot().Model("m").Version(1)
	t.Logf("batched %v: %s", v.Batching.Batched, v.Batching.Reason)
	together(t, h, 256, func(i int) (*catalog.Call, []float32) {
		k := []int64{0, 5, 2}[i%3]
		x, want := []float32{float32(i), 1, 2, 3}, []float32{0, 0, 0, 0}
		if k == 5 {
			want = x
		}
		return &catalog.Call{
			Version: v, Rows: 1,
			Inputs: []tensor.Tensor{floats(tensor.Shape{1, 4}, x...), int64s(tensor.Shape{}, k)},
		}, want
	})
}

// together makes n calls at once and fails the test for answers that are not those wanted.
func together(t *testing.T, h *host.Host, n int, call func(i int) (*catalog.Call, []float32)) {
	t.Helper()
	var group sync.WaitGroup
	var wrong atomic.Int32
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			c, want := call(i)
			<-start
			if err := h.Predict(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			if !slices.EqualFunc(values(c.Results[0]), want, alike) {
				wrong.Add(1)
			}
		})
	}
	close(start)
	group.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d of %d answers are wrong", wrong.Load(), n)
	}
}

func alike(a, b float32) bool {
	return a != a && b != b || math.Abs(float64(a-b)) <= 1e-5*max(1, math.Abs(float64(b)))
}
