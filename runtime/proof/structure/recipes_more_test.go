package structure_test

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

func squeezeRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 6, tensor.Float32, tensor.Int64)
	if !ok {
		return "", 0
	}
	for i, d := range v.dims {
		if d == 1 && v.dims3[i] == 1 && g.rng.IntN(3) > 0 {
			return g.axes("Squeeze", 13, []int64{int64(i)}, "", v.name), 1
		}
	}
	return "Squeeze(" + v.name + ")", 1
}

func unsqueezeRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.Float32, tensor.Int64)
	if !ok {
		return "", 0
	}
	return g.axes("Unsqueeze", 13, []int64{int64(g.rng.IntN(2*v.rank()+2) - v.rank() - 1)}, "", v.name), 1
}

func transposeRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 5, tensor.Float32, tensor.Int64, tensor.Uint8, tensor.Bool)
	if !ok {
		return "", 0
	}
	var perm []int64
	for _, i := range g.rng.Perm(v.rank()) {
		perm = append(perm, int64(i))
	}
	return g.oneOf("Transpose("+v.name+")", fmt.Sprintf("Transpose{perm=[%s]}(%s)", joined(perm), v.name)), 1
}

func concatRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 5)
	if !ok {
		return "", 0
	}
	w, _ := g.float(v.rank(), v.rank())
	other := w.name
	if g.rng.IntN(4) == 0 {
		other = g.oneOf("Relu(", "Neg(") + v.name + ")"
	}
	return fmt.Sprintf("Concat{axis=%d}(%s, %s)", g.axis(v), v.name, other), 1
}

func splitRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 5)
	if !ok {
		return "", 0
	}
	a := g.axis(v)
	switch n := at(v, a); {
	case g.opset >= 18:
		return fmt.Sprintf("Split{axis=%d,num_outputs=2}(%s)", a, v.name), 2
	case g.opset < 13 || g.rng.IntN(2) == 0:
		return fmt.Sprintf("Split{axis=%d}(%s)", a, v.name), 2
	default:
		return fmt.Sprintf("Split{axis=%d}(%s, [1,%d])", a, v.name, n-1), 2
	}
}

func sliceRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 5)
	if !ok {
		return "", 0
	}
	a := g.axis(v)
	start, end := g.rng.IntN(3), g.oneOf("1", "2", "3", "100", "-1", "9223372036854775807")
	if g.opset < 10 {
		return fmt.Sprintf("Slice{starts=[%d],ends=[%s],axes=[%d]}(%s)", start, end, a, v.name), 1
	}
	if s, ok := g.pick(1, 1, tensor.Int64); ok && g.rng.IntN(3) == 0 {
		return fmt.Sprintf("Slice(%s, [0], %s, [%d])", v.name, s.name, a), 1
	}
	return g.oneOf(fmt.Sprintf("Slice(%s, [%d], [%s], [%d])", v.name, start, end, a),
		fmt.Sprintf("Slice(%s, [0], [%s], [%d])", v.name, end, a),
		fmt.Sprintf("Slice(%s, [-1], [-100], [%d], [-1])", v.name, a),
		fmt.Sprintf("Slice(%s, [0], [100], [%d], [2])", v.name, a)), 1
}

func padRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok || g.opset < 11 {
		return "", 0
	}
	if g.opset >= 18 && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Pad(%s, [1,%d], _, [%d])", v.name, g.rng.IntN(2)-1, g.axis(v)), 1
	}
	pads := make([]int64, 2*v.rank())
	pads[g.rng.IntN(len(pads))] = int64(g.rng.IntN(3)) - 1
	return fmt.Sprintf("Pad(%s, [%s])", v.name, joined(pads)), 1
}

func reverseRecipe(g *generator) (string, int) {
	v, ok := g.float(2, 4)
	l, okL := g.pick(1, 1, tensor.Int64)
	if !ok || !okL {
		return "", 0
	}
	b := g.rng.IntN(2)
	return fmt.Sprintf("ReverseSequence{batch_axis=%d,time_axis=%d}(%s, Max(1, Min(%s, 1)))", b, 1-b, v.name, l.name), 1
}

func gatherRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	index := g.oneOf("0", "[0]", "[1,0]", "[-1]", "1")
	if i, ok := g.pick(0, 3, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		index = i.name
	}
	if g.rng.IntN(3) == 0 && index[0] == 'x' {
		return fmt.Sprintf("Gather(<3,4>, %s)", index), 1
	}
	return fmt.Sprintf("Gather{axis=%d}(%s, %s)", g.axis(v), v.name, index), 1
}

func gatherElementsRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	if i, ok := g.pick(v.rank(), v.rank(), tensor.Int64); ok {
		return fmt.Sprintf("GatherElements{axis=%d}(%s, %s)", g.axis(v), v.name, i.name), 1
	}
	return fmt.Sprintf("GatherElements{axis=%d}(%s, Cast{to=7}(Greater(%s, 0.0)))", g.axis(v), v.name, v.name), 1
}

func gatherNDRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	i, okI := g.pick(1, 4, tensor.Int64)
	if !ok || !okI || g.opset < 12 {
		return "", 0
	}
	return fmt.Sprintf("GatherND{batch_dims=%d}(%s, Unsqueeze(%s, [-1]))", g.rng.IntN(2), v.name, i.name), 1
}

func scatterRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok || g.opset < 11 {
		return "", 0
	}
	if g.rng.IntN(2) == 0 {
		return fmt.Sprintf("ScatterElements{axis=%d}(%s, Cast{to=7}(Greater(%s, 0.0)), Neg(%s))", g.axis(v), v.name,
			v.name, v.name), 1
	}
	w, _ := g.float(1, 4)
	return fmt.Sprintf("ScatterND(%s, Reshape([0], [1,1]), %s)", v.name, w.name), 1
}

func oneHotRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 3, tensor.Int64)
	if !ok {
		return "", 0
	}
	return fmt.Sprintf("OneHot{axis=%d}(%s, 3, f[0.0,1.0])", g.rng.IntN(v.rank()+2)-1, v.name), 1
}

func reduceRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 5)
	if !ok {
		return "", 0
	}
	op := g.oneOf("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
		"ReduceProd", "ReduceSum", "ReduceSumSquare")
	since := 18
	if op == "ReduceSum" {
		since = 13
	}
	list := []int64{int64(g.axis(v))}
	if v.rank() > 1 && g.rng.IntN(3) == 0 {
		list = []int64{0, int64(1 + g.rng.IntN(v.rank()-1))}
	}
	keep := fmt.Sprintf(",keepdims=%d", g.rng.IntN(2))
	switch {
	case g.rng.IntN(8) == 0:
		return fmt.Sprintf("%s{%s}(%s)", op, keep[1:], v.name), 1
	case g.opset >= since && g.rng.IntN(6) == 0:
		return fmt.Sprintf("%s{%s,noop_with_empty_axes=%d}(%s, [])", op, keep[1:], g.rng.IntN(2), v.name), 1
	}
	return g.axes(op, since, list, keep, v.name), 1
}

func argRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 5)
	if !ok {
		return "", 0
	}
	return fmt.Sprintf("%s{axis=%d,keepdims=%d}(%s)", g.oneOf("ArgMax", "ArgMin"), g.axis(v), g.rng.IntN(2), v.name), 1
}

func topKRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok || g.opset < 11 {
		return "", 0
	}
	return fmt.Sprintf("TopK{axis=%d}(%s, [1])", g.axis(v), v.name), 2
}

func normalizationRecipe(g *generator, v genValue) string {
	a := g.axis(v)
	dims := v.dims[v.rank()-1:]
	if g.rng.IntN(3) > 0 {
		a = -1
	} else if a >= 0 {
		dims = v.dims[a:]
	} else {
		dims = v.dims[v.rank()+a:]
	}
	return fmt.Sprintf("%s{axis=%d}(%s, %s)",
		g.oneOf("LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"), a, v.name, weights(dims...))
}

func matmulRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	w, _ := g.float(1, 4)
	last := v.dims[v.rank()-1]
	first := v.dims[max(0, v.rank()-2)]
	return g.oneOf(fmt.Sprintf("MatMul(%s, %s)", v.name, weights(last, 3)),
		fmt.Sprintf("MatMul(%s, %s)", v.name, weights(2, last, 3)),
		fmt.Sprintf("MatMul(%s, %s)", weights(3, first), v.name), fmt.Sprintf("MatMul(%s, %s)", v.name, weights(last)),
		fmt.Sprintf("MatMul(%s, %s)", v.name, w.name), fmt.Sprintf("MatMul(%s, Transpose(%s))", v.name, w.name),
		fmt.Sprintf("ms.FusedMatMul{transA=%d,transB=%d,alpha=0.5}(%s, %s)", g.rng.IntN(2), g.rng.IntN(2), v.name,
			w.name),
		fmt.Sprintf("ms.FusedMatMul{transB=1}(%s, %s)", v.name, weights(3, last))), 1
}

func gemmRecipe(g *generator) (string, int) {
	v, ok := g.float(2, 2)
	if !ok {
		return "", 0
	}
	w, _ := g.float(2, 2)
	bias := g.oneOf("_", "<3>", "<1,3>", "<1>", w.name)
	return g.oneOf(fmt.Sprintf("Gemm(%s, %s, %s)", v.name, weights(v.dims[1], 3), bias),
		fmt.Sprintf("Gemm{transA=1}(%s, %s, %s)", v.name, weights(v.dims[0], 3), bias),
		fmt.Sprintf("Gemm{transB=1}(%s, %s)", v.name, w.name),
		fmt.Sprintf("Gemm(%s, %s, %s)", weights(3, v.dims[0]), v.name, g.oneOf("_", "<3,1>", w.name))), 1
}

func einsumRecipe(g *generator) (string, int) {
	v, ok := g.float(2, 3)
	if !ok || g.opset < 12 {
		return "", 0
	}
	w, _ := g.float(v.rank(), v.rank())
	equation := g.oneOf("ij,ij->ij", "ij,kj->ik", "ij,ij->i", "ij,jk->ik", "ij,ik->ijk", "ij,ij->j")
	if v.rank() == 3 {
		equation = g.oneOf("bij,bkj->bik", "bij,bij->bi", "bij,bjk->kib", "bij,cij->bc", "bij,bij->ij")
	}
	return fmt.Sprintf(`Einsum{equation="%s"}(%s, %s)`, equation, v.name, w.name), 1
}

func convRecipe(g *generator, v genValue) string {
	kernel := make([]int64, v.rank()-2)
	for i := range kernel {
		kernel[i] = int64(1 + g.rng.IntN(2))
	}
	stride := strings.Repeat(",2", len(kernel))[1:]
	if g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Conv{strides=[%s]}(%s, %s, %s)", stride, v.name,
			weights(append([]int64{3, v.dims[1]}, kernel...)...), g.oneOf("_", "<3>"))
	}
	return g.oneOf(fmt.Sprintf("Conv(%s, %s)", v.name, weights(append([]int64{3, v.dims[1]}, kernel...)...)),
		fmt.Sprintf("ConvTranspose{strides=[%s]}(%s, %s)", stride, v.name,
			weights(append([]int64{v.dims[1], 2}, kernel...)...)))
}

func poolRecipe(g *generator, v genValue) string {
	kernel := strings.Repeat(",2", v.rank()-2)[1:]
	return g.oneOf(fmt.Sprintf("%s{kernel_shape=[%s]}(%s)", g.oneOf("MaxPool", "AveragePool", "LpPool"), kernel,
		v.name),
		fmt.Sprintf("%s{kernel_shape=[%s],strides=[%s],ceil_mode=1}(%s)", g.oneOf("MaxPool", "AveragePool"), kernel,
			kernel, v.name),
		fmt.Sprintf("%s(%s)", g.oneOf("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), v.name))
}

func imageRecipe(g *generator, v genValue) string {
	c := weights(v.dims[1])
	variance := "f[" + strings.TrimSuffix(strings.Repeat("1.5,", int(v.dims[1])), ",") + "]"
	return g.oneOf(fmt.Sprintf("BatchNormalization(%s, %s, %s, %s, %s)", v.name, c, c, c, variance),
		fmt.Sprintf("InstanceNormalization(%s, %s, %s)", v.name, c, c), fmt.Sprintf("LRN{size=3}(%s)", v.name),
		fmt.Sprintf("GroupNormalization{num_groups=%d}(%s, %s, %s)", v.dims[1], v.name, c, c),
		fmt.Sprintf("BatchNormalization{training_mode=1}(%s, %s, %s, %s, %s)", v.name, c, c, c, variance))
}

func resizeRecipe(g *generator, v genValue) string {
	scales := make([]string, v.rank())
	for i := range scales {
		scales[i] = "1.0"
	}
	scales[g.rng.IntN(len(scales))] = "2.0"
	if g.rng.IntN(3) == 0 {
		n := v.rank() - 1
		return fmt.Sprintf(`Resize(%s, f[], f[], Concat{axis=0}(Slice(Shape(%s), [0], [%d], [0]), [3]))`, v.name,
			v.name, n)
	}
	if g.opset < 11 {
		return fmt.Sprintf("Resize(%s, f[%s])", v.name, strings.Join(scales, ","))
	}
	return fmt.Sprintf(`Resize{mode="%s"}(%s, f[], f[%s])`, g.oneOf("nearest", "linear"), v.name,
		strings.Join(scales, ","))
}

func gridRecipe(g *generator) (string, int) {
	v, ok := g.float(4, 4)
	if !ok || g.opset < 16 {
		return "", 0
	}
	return fmt.Sprintf("GridSample(%s, Concat{axis=3}(Slice(%s, [0], [1], [3]), Slice(%s, [0], [1], [3])))", v.name,
		v.name, v.name), 1
}

func recurrentRecipe(g *generator) (string, int) {
	v, ok := g.float(3, 3)
	if !ok {
		return "", 0
	}
	op := g.oneOf("RNN", "GRU", "LSTM")
	gates := map[string]int64{"RNN": 1, "GRU": 3, "LSTM": 4}[op]
	direction, d := `"forward"`, int64(1)
	if g.rng.IntN(3) == 0 {
		direction, d = `"bidirectional"`, 2
	}
	lengths := "_"
	if l, ok := g.pick(1, 1, tensor.Int32); ok && g.rng.IntN(2) == 0 {
		lengths = fmt.Sprintf("Cast{to=6}(Equal(%s, %s))", l.name, l.name)
	}
	state := "_"
	if s, ok := g.float(3, 3); ok && g.rng.IntN(3) == 0 {
		state = s.name
	}
	return fmt.Sprintf("%s{hidden_size=2,direction=%s}(%s, %s, %s, _, %s, %s)", op, direction, v.name,
		weights(d, 2*gates, v.dims[2]), weights(d, 2*gates, 2), lengths, state), 2
}

// inner is something done to a value within a graph of its own.
func (g *generator) inner(name string, rank int) string {
	axis := 0
	if rank > 0 {
		axis = g.rng.IntN(rank)
	}
	other := name
	if v, ok := g.float(rank, rank); ok {
		other = v.name
	}
	return g.oneOf("Relu("+name+")", "Neg("+name+")", fmt.Sprintf("Softmax{axis=%d}(%s)", axis, name),
		fmt.Sprintf("Add(%s, %s)", name, other),
		fmt.Sprintf("Mul(%s, %s)", other, name), fmt.Sprintf("CumSum(%s, %d)", name, axis),
		fmt.Sprintf("Concat{axis=%d}(%s, %s)", axis, name, other),
		"Transpose("+name+")", fmt.Sprintf("Add(%s, ReduceMean{axes=[%d]}(%s))", name, axis, name),
		fmt.Sprintf("Slice(%s, [0], [1], [%d])", name, axis))
}

func ifRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	cond := g.oneOf("b(1)", "b(0)",
		fmt.Sprintf("Squeeze(Equal(Gather(Shape(%s), [%d]), [1]), [0])", v.name, g.rng.IntN(v.rank())))
	if c, ok := g.pick(0, 1, tensor.Bool); ok && g.rng.IntN(2) == 0 {
		cond = c.name
	}
	return fmt.Sprintf("If{then_branch=()=>(%s),else_branch=()=>(%s)}(%s)", g.inner(v.name, v.rank()),
		g.inner(v.name, v.rank()), cond), 1
}

func loopRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 3)
	if !ok {
		return "", 0
	}
	trips := g.oneOf("1", "2", "3")
	if n, ok := g.pick(0, 0, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		trips = "Max(Min(" + n.name + ", 4), 1)"
	}
	cond := g.oneOf("Identity(c)", "Identity(c)", "Identity(c)", "Less(ReduceMax{keepdims=0}(s), 3.0)", "Less(i, 1)")
	return fmt.Sprintf("Loop{body=(i:i64[],c:bool[],s)=>(%s, %s, %s)}(%s, b(1), %s)",
		cond, g.inner("s", v.rank()), g.oneOf(g.inner("s", v.rank()), "Add(s, Cast{to=1}(i))"), trips, v.name), 2
}

func scanRecipe(g *generator) (string, int) {
	v, ok := g.float(2, 4)
	if !ok {
		return "", 0
	}
	in, out := g.axis(v), g.rng.IntN(v.rank())
	if s, ok := g.float(v.rank()-1, v.rank()-1); ok && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Scan{num_scan_inputs=1,scan_input_axes=[%d],body=(s,e)=>(Add(s, e), %s)}(%s, %s)", in,
			g.inner("e", v.rank()-1), s.name, v.name), 2
	}
	return fmt.Sprintf("Scan{num_scan_inputs=1,scan_input_axes=[%d],scan_output_axes=[%d],body=(e)=>(%s)}(%s)", in, out,
		g.inner("e", v.rank()-1), v.name), 1
}
