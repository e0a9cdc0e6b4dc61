package structure

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that let entries along some dimensions meet.
var reduceOperators = tableOf(
	each("", operator{apply: reduceSince(18), counts: true}, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
		"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare"),
	each("", operator{apply: reduceSince(13), counts: true}, "ReduceSum"),
	each("", operator{apply: argMax}, "ArgMax", "ArgMin"),
	each("", operator{apply: softmax}, "Softmax", "LogSoftmax", "Hardmax"),
	each("", operator{apply: lpNormalization}, "LpNormalization"),
	each("", operator{apply: cumSum}, "CumSum"),
	each("", operator{apply: topK, counts: true}, "TopK"),
	each("", operator{apply: meanVariance}, "MeanVarianceNormalization"),
	each("", operator{apply: layerNormalization}, "LayerNormalization", "SimplifiedLayerNormalization",
		"RMSNormalization"),
)

// ofNaN is why the largest of numbers is not proven to be the same in every batch. ONNX Runtime takes it in packets
// that begin where memory is aligned, and a packet's result for NaN depends on where in it that stands: a row with NaN
// in it answers otherwise in another place of a batch.
const ofNaN = "what it makes of NaN depends on where a row lies in memory"

// reduceSince is the rule of a reduction whose axes became an input with the operator set since.
func reduceSince(since int64) rule {
	return func(c *call) []*value {
		v := c.data(0)
		axes := c.axes(since, 1)
		keep := c.flag("keepdims", true)
		nothing := c.flag("noop_with_empty_axes", false)
		if len(axes) == 0 && !(nothing && c.version >= since) {
			axes = upTo(v.rank())
		}
		out, drop := c.reduced(v, axes, keep)
		if op := c.node.GetOpType(); v.kind == rows && (op == "ReduceMax" || op == "ReduceMin") {
			return c.no(ofNaN)
		}
		c.reduceElems(v, out, drop)
		return []*value{out}
	}
}

// reduced is v less some dimensions, or with one entry along them; dropped says which they are.
func (c *call) reduced(v *value, axes []int64, keep bool) (out *value, dropped []bool) {
	axes, doubtful := c.counted(v, axes)
	dropped = c.marked(axes, v.rank())
	out = like(v, nil, v.axis)
	for at, d := range v.dims {
		switch {
		case !dropped[at]:
			out.dims = append(out.dims, d)
		case v.holds(at):
			c.mingles("reduces over")
		case keep && doubtful:
			out.dims = append(out.dims, c.fresh())
		case doubtful:
			c.no("whether it drops a dimension is not known: %s may have no entries, and its axes count from "+
				"the end", c.name(0))
		case keep:
			out.dims = append(out.dims, one)
		case at < v.axis:
			out.axis--
		}
	}
	return out, dropped
}

// counted returns the axes that ONNX Runtime reduces over: of a tensor without entries it leaves out the axes that
// count from the end. Doubtful: whether it has entries is not known.
func (c *call) counted(v *value, axes []int64) (_ []int64, doubtful bool) {
	fromEnd := func(axis int64) bool { return axis < 0 }
	if !slices.ContainsFunc(axes, fromEnd) || c.p.filled(v) {
		return axes, false
	}
	if total, ok := product(v.dims); !ok || !total.is(0) {
		return axes, true
	}
	return slices.DeleteFunc(slices.Clone(axes), fromEnd), false
}

// reduceElems computes the product of a shape, which is how many elements a tensor has.
func (c *call) reduceElems(v, out *value, drop []bool) {
	if v.kind == rows || v.rank() != 1 || !drop[0] || len(v.elems) == 0 {
		return
	}
	op, ok := map[string]string{
		"ReduceProd": "Mul", "ReduceSum": "Add", "ReduceMax": "Max",
		"ReduceMin": "Min",
	}[c.node.GetOpType()]
	if !ok {
		return
	}
	e := v.elems[0]
	for _, f := range v.elems[1:] {
		e = c.p.combine(op, e, f)
	}
	out.withElems([]elem{e})
}

func argMax(c *call) []*value {
	out, _ := c.reduced(c.data(0), []int64{c.integer("axis", 0)}, c.flag("keepdims", true))
	return []*value{out}
}

// softmax took all dimensions from its axis on together, before operator set 13.
func softmax(c *call) []*value {
	v := c.data(0)
	otherwise := int64(-1)
	if c.version < 13 {
		otherwise = 1
	}
	at := c.axis(otherwise, v)
	op := c.node.GetOpType()
	if v.kind == rows && (op == "Hardmax" || op == "LogSoftmax" && c.p.types.has(onnx.TensorProto_DOUBLE)) {
		return c.no(ofNaN)
	}
	if v.holds(at) || c.version < 13 && v.kind == rows && v.axis >= at {
		return c.mingles("normalises over")
	}
	return same(v)
}

func lpNormalization(c *call) []*value {
	v := c.data(0)
	if v.holds(c.axis(-1, v)) {
		return c.mingles("normalises over")
	}
	return same(v)
}

func cumSum(c *call) []*value {
	v := c.data(0)
	axis := c.constants(1)
	if len(axis) != 1 {
		return c.no("it needs one axis")
	}
	if v.holds(c.place(axis[0], v.rank())) {
		return c.mingles("sums along")
	}
	return same(v)
}

func topK(c *call) []*value {
	v := c.content()
	at := c.axis(-1, v)
	if v.holds(at) {
		return c.mingles("sorts")
	}
	c.uniform(1)
	k := c.count(1)
	return []*value{v.with(at, k), v.with(at, k)}
}

func meanVariance(c *call) []*value {
	v := c.data(0)
	axes := c.integers("axes")
	if c.attrs["axes"] == nil {
		axes = []int64{0, 2, 3}
	}
	if _, ok := c.attrs["across_channels"]; ok || len(axes) == 0 {
		return nil
	}
	for _, a := range axes {
		if v.holds(c.place(a, v.rank())) {
			return c.mingles("normalises over")
		}
	}
	return same(v)
}

// layerNormalization takes all dimensions from its axis on together.
func layerNormalization(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	at := c.axis(-1, v)
	if v.kind == rows && v.axis >= at {
		return c.mingles("normalises over")
	}
	for i := 1; i < len(c.in); i++ {
		if c.in[i] == nil {
			continue
		}
		if w := c.data(i); v.kind == rows {
			c.aligned(w, v, v.axis-v.rank())
		}
	}
	statistics := slices.Clone(v.dims)
	for i := at; i < v.rank(); i++ {
		statistics[i] = one
	}
	return []*value{like(v, v.dims, v.axis), like(v, statistics, v.axis), like(v, statistics, v.axis)}
}
