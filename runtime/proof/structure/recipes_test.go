package structure_test

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

// recipe is a random statement: an expression that makes so many values; "": there is nothing to make it of.
type recipe func(g *generator) (expression string, outputs int)

// statement tries one recipe.
func (g *generator) statement() bool {
	expression, outputs := recipes[g.rng.IntN(len(recipes))](g)
	return expression != "" && g.add(expression, outputs)
}

// pick returns a random value of one of the types and so many dimensions; later ones are likelier.
func (g *generator) pick(least, most int, types ...tensor.DType) (genValue, bool) {
	var fit []genValue
	for _, v := range g.pool {
		for _, d := range types {
			if v.dtype == d && v.rank() >= least && v.rank() <= most && extent(v.dims) > 0 {
				fit = append(fit, v)
			}
		}
	}
	if len(fit) == 0 {
		return genValue{}, false
	}
	return fit[max(g.rng.IntN(len(fit)), g.rng.IntN(len(fit)))], true
}

// float is a value of floats, or rarely of another type: ONNX Runtime refuses what it does not compute.
func (g *generator) float(least, most int) (genValue, bool) {
	if g.rng.IntN(12) == 0 {
		if v, ok := g.pick(least, most, tensor.String, tensor.Int64, tensor.Bool, tensor.Uint8, tensor.Int32); ok {
			return v, ok
		}
	}
	return g.pick(least, most, tensor.Float32)
}

// axis is a random dimension of v, sometimes counted from the end.
func (g *generator) axis(v genValue) int {
	if v.rank() == 0 {
		return 0
	}
	a := g.rng.IntN(v.rank())
	if g.rng.IntN(3) == 0 {
		a -= v.rank()
	}
	return a
}

func (g *generator) oneOf(list ...string) string { return list[g.rng.IntN(len(list))] }

// at is the size of a dimension with 2 rows.
func at(v genValue, axis int) int64 {
	if axis < 0 {
		axis += v.rank()
	}
	return v.dims[axis]
}

func weights(dims ...int64) string { return "<" + joined(dims) + ">" }

func joined(list []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

// simple wraps a function that makes one value of floats with so many dimensions.
func simple(least, most int, f func(g *generator, v genValue) string) recipe {
	return func(g *generator) (string, int) {
		v, ok := g.float(least, most)
		if !ok {
			return "", 0
		}
		return f(g, v), 1
	}
}

// axes writes a list of axes as an attribute or an input, as the operator set has it.
func (g *generator) axes(op string, since int, list []int64, more, v string) string {
	if g.opset < since {
		return fmt.Sprintf("%s{axes=[%s]%s}(%s)", op, joined(list), more, v)
	}
	return fmt.Sprintf("%s{%s}(%s, [%s])", op, strings.TrimPrefix(more, ","), v, joined(list))
}

var recipes = []recipe{
	simple(0, 6, unaryRecipe), simple(0, 6, unaryRecipe), binaryRecipe, binaryRecipe, binaryRecipe, compareRecipe,
	intRecipe, logicRecipe, whereRecipe,
	simple(0, 6, func(g *generator, v genValue) string {
		return g.oneOf("Clip("+v.name+", -1.0, 1.0)", "Dropout("+v.name+")", "CastLike("+v.name+", 1)",
			"Dropout("+v.name+", 0.5, b(0))",
			"PRelu("+v.name+", <1>)", "Mod{fmod=1}("+v.name+", 2.0)")
	}),
	castRecipe, shapeRecipe, shapeRecipe, sizesRecipe, sizesRecipe, constantRecipe, expandRecipe, tileRecipe,
	rangeRecipe,
	reshapeRecipe, reshapeRecipe, reshapeRecipe, computedReshape, computedReshape, computedReshape,
	simple(1, 6, func(g *generator,
		v genValue,
	) string {
		return fmt.Sprintf("Flatten{axis=%d}(%s)", g.axis(v), v.name)
	}),
	squeezeRecipe, unsqueezeRecipe, transposeRecipe, transposeRecipe, concatRecipe, concatRecipe, splitRecipe,
	sliceRecipe, sliceRecipe, padRecipe,
	simple(4, 4, func(g *generator, v genValue) string {
		return fmt.Sprintf("%s{blocksize=%d}(%s)", g.oneOf("DepthToSpace", "SpaceToDepth"), 1+g.rng.IntN(2), v.name)
	}),
	simple(2, 6, func(g *generator,
		v genValue,
	) string {
		return fmt.Sprintf("Trilu(%s, %d)", v.name, g.rng.IntN(3)-1)
	}),
	reverseRecipe, gatherRecipe, gatherRecipe, gatherElementsRecipe, gatherNDRecipe, scatterRecipe, oneHotRecipe,
	reduceRecipe, reduceRecipe, reduceRecipe, argRecipe, topKRecipe,
	simple(1, 5, func(g *generator, v genValue) string {
		return fmt.Sprintf("%s{axis=%d}(%s)", g.oneOf("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), g.axis(v),
			v.name)
	}),
	simple(1, 5, func(g *generator, v genValue) string {
		return g.oneOf("Softmax", "LogSoftmax", "Hardmax") + "(" + v.name + ")"
	}),
	simple(1, 5, func(g *generator, v genValue) string { return fmt.Sprintf("CumSum(%s, %d)", v.name, g.axis(v)) }),
	simple(2, 4, func(g *generator, v genValue) string {
		return fmt.Sprintf("MeanVarianceNormalization{axes=[%d]}(%s)", g.rng.IntN(v.rank()), v.name)
	}),
	simple(1, 4, normalizationRecipe), matmulRecipe, matmulRecipe, matmulRecipe, gemmRecipe, einsumRecipe,
	simple(3, 4, convRecipe), simple(3, 4, poolRecipe), simple(2, 4, imageRecipe), simple(3, 4, resizeRecipe),
	gridRecipe,
	recurrentRecipe, ifRecipe, ifRecipe, loopRecipe, loopRecipe, scanRecipe, quantizeRecipe, dequantizeRecipe,
	quantizedRecipe, contribRecipe,
	attentionRecipe, classicRecipe, classicRecipe, compressRecipe, bitRecipe, stringRecipe, quantizedRecipe,
}

func unaryRecipe(g *generator, v genValue) string {
	ops := []string{
		"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
		"HardSigmoid",
		"Identity", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh",
		"Softplus", "Softsign",
		"Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Celu", "HardSwish", "Mish", "Gelu", "Shrink", "ms.Gelu",
		"ms.QuickGelu", "ms.FastGelu",
	}
	return g.oneOf(ops...) + "(" + v.name + ")"
}

// partner is a second operand: another value, a scalar, or weights that fit.
func (g *generator) partner(v genValue) string {
	switch w, ok := g.float(0, 6); {
	case ok && g.rng.IntN(5) < 3:
		return w.name
	case g.rng.IntN(2) == 0 || v.rank() == 0:
		return g.oneOf("2.0", "-0.5", "0.0")
	default:
		from := g.rng.IntN(v.rank())
		dims := append([]int64{}, v.dims[from:]...)
		for i := range dims {
			if g.rng.IntN(3) == 0 {
				dims[i] = 1
			}
		}
		return weights(dims...)
	}
}

func binaryRecipe(g *generator) (string, int) {
	v, ok := g.float(0, 6)
	if !ok {
		return "", 0
	}
	a, b := v.name, g.partner(v)
	if g.rng.IntN(2) == 0 {
		a, b = b, a
	}
	return fmt.Sprintf("%s(%s, %s)",
		g.oneOf("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "PRelu", "Add", "Mul"), a, b), 1
}

func compareRecipe(g *generator) (string, int) {
	v, ok := g.float(0, 6)
	if !ok {
		return "", 0
	}
	if g.rng.IntN(4) == 0 {
		return g.oneOf("IsNaN", "IsInf") + "(" + v.name + ")", 1
	}
	return fmt.Sprintf("%s(%s, %s)", g.oneOf("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), v.name,
		g.partner(v)), 1
}

func intRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.Int64)
	if !ok {
		return "", 0
	}
	other := g.oneOf("1", "2", "-1", "0")
	if w, ok := g.pick(0, 4, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		other = w.name
	}
	return fmt.Sprintf("%s(%s, %s)", g.oneOf("Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "Greater"), v.name,
		other), 1
}

func logicRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.Bool)
	if !ok {
		return "", 0
	}
	w, _ := g.pick(0, 4, tensor.Bool)
	return g.oneOf("Not("+v.name+")", fmt.Sprintf("%s(%s, %s)", g.oneOf("And", "Or", "Xor"), v.name, w.name)), 1
}

func whereRecipe(g *generator) (string, int) {
	c, ok := g.pick(0, 4, tensor.Bool)
	v, okV := g.pick(0, 4, tensor.Float32, tensor.Int64)
	if !ok || !okV {
		return "", 0
	}
	w, _ := g.pick(0, 4, v.dtype)
	return fmt.Sprintf("Where(%s, %s, %s)", c.name, v.name, w.name), 1
}

func castRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.Float32, tensor.Int64, tensor.Bool, tensor.Int32, tensor.Uint8)
	if !ok {
		return "", 0
	}
	to := g.oneOf("1", "1", "1", "7", "9", "6")
	if v.dtype == tensor.Float32 && to != "9" {
		// The results of casts of NaN and of numbers out of range are not defined.
		return fmt.Sprintf("Cast{to=%s}(Where(IsNaN(%s), 0.0, Clip(%s, -3.0, 3.0)))", to, v.name, v.name), 1
	}
	return fmt.Sprintf("Cast{to=%s}(%s)", to, v.name), 1
}

func bitRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.Int32, tensor.Uint8)
	if !ok {
		return "", 0
	}
	w, _ := g.pick(0, 4, v.dtype)
	return g.oneOf("BitwiseNot("+v.name+")", fmt.Sprintf("%s(%s, %s)", g.oneOf("BitwiseAnd", "BitwiseOr", "BitwiseXor",
		`BitShift{direction="RIGHT"}`), v.name, w.name)), 1
}

func stringRecipe(g *generator) (string, int) {
	v, ok := g.pick(0, 4, tensor.String)
	if !ok {
		return "", 0
	}
	w, _ := g.pick(0, 4, tensor.String)
	return g.oneOf(fmt.Sprintf("StringConcat(%s, %s)", v.name, w.name), `RegexFullMatch{pattern="a|b"}(`+v.name+")",
		`StringNormalizer{stopwords=["a"]}(`+v.name+")", "Transpose("+v.name+")"), 1
}

func shapeRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 6)
	if !ok {
		return "", 0
	}
	if g.opset >= 15 && g.rng.IntN(3) == 0 {
		return fmt.Sprintf("Shape{start=%d,end=%d}(%s)", g.axis(v), g.rng.IntN(v.rank()+1), v.name), 1
	}
	return g.oneOf("Shape("+v.name+")", "Shape("+v.name+")", "Size("+v.name+")"), 1
}

// sizesRecipe takes elements of a vector, or joins two.
func sizesRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 1, tensor.Int64)
	if !ok {
		return "", 0
	}
	w, _ := g.pick(1, 1, tensor.Int64)
	i := g.rng.IntN(3)
	big := g.oneOf("536870912", "1073741823", "65536", "3", "0")
	return g.oneOf(fmt.Sprintf("Gather(%s, [%d])", v.name, i),
		fmt.Sprintf("Cast{to=7}(%s(Cast{to=6}(%s), i32[%s]))", g.oneOf("Mul", "Add", "Max"), v.name, big),
		fmt.Sprintf("Cast{to=7}(Div(Mul(Cast{to=6}(%s), i32[%s]), i32[%s]))", v.name, big, strings.Replace(big, "0", "2", 1)),
		fmt.Sprintf("Div(Mul(%s, [%s]), [%s])", v.name, big, strings.Replace(big, "0", "2", 1)),
		fmt.Sprintf("Mul(%s, %s)", v.name, w.name), fmt.Sprintf("Gather(%s, %d)", v.name, i),
		fmt.Sprintf("Concat{axis=0}(%s, %s)", v.name, w.name),
		fmt.Sprintf("Concat{axis=0}(%s, [%d])", v.name, g.rng.IntN(4)-1),
		fmt.Sprintf("Concat{axis=0}([%d], %s)", g.rng.IntN(4)-1, v.name),
		fmt.Sprintf("Slice(%s, [%d], [%d], [0])", v.name, g.rng.IntN(2), 1+g.rng.IntN(3)), "Squeeze("+v.name+", [0])",
		g.oneOf("ReduceProd", "ReduceSum", "ReduceMax")+"("+v.name+")",
		fmt.Sprintf("Where(Equal(%s, -1), 1, %s)", v.name, v.name)), 1
}

func constantRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 1, tensor.Int64)
	if !ok {
		return g.oneOf("Constant{value_float=1.5}()", "Constant{value_ints=[2,-1]}()", "Constant{value_int=1}()"), 1
	}
	return "ConstantOfShape(" + v.name + ")", 1
}

func expandRecipe(g *generator) (string, int) {
	v, ok := g.float(0, 4)
	if !ok {
		return "", 0
	}
	if s, ok := g.pick(1, 1, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Expand(%s, %s)", v.name, s.name), 1
	}
	if w, ok := g.float(1, 4); ok && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Expand(%s, Shape(%s))", v.name, w.name), 1
	}
	dims := append([]int64{}, v.dims...)
	for i := range dims {
		if g.rng.IntN(2) == 0 || dims[i] != v.dims3[i] {
			dims[i] = 1
		}
	}
	if g.rng.IntN(2) == 0 {
		dims = append([]int64{int64(g.rng.IntN(3) + 1)}, dims...)
	}
	return fmt.Sprintf("Expand(%s, [%s])", v.name, joined(dims)), 1
}

func tileRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	if s, ok := g.pick(1, 1, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("Tile(%s, %s)", v.name, s.name), 1
	}
	repeats := make([]int64, v.rank())
	for i := range repeats {
		repeats[i] = int64(max(1, g.rng.IntN(6)-3))
	}
	return fmt.Sprintf("Tile(%s, [%s])", v.name, joined(repeats)), 1
}

func rangeRecipe(g *generator) (string, int) {
	if v, ok := g.pick(0, 0, tensor.Int64); ok {
		return "Range(0, " + v.name + ", 1)", 1
	}
	return "Cast{to=1}(Range(0, 4, 1))", 1
}

func reshapeRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 6, tensor.Float32, tensor.Int64)
	if !ok {
		return "", 0
	}
	var shape []int64
	switch g.rng.IntN(4) {
	case 0: // merge or split next to -1
		shape = append([]int64{}, v.dims...)
		shape[g.rng.IntN(len(shape))] = -1
	case 1:
		shape = []int64{-1, v.dims[v.rank()-1]}
	case 2:
		shape = []int64{0, -1}
		if g.rng.IntN(2) == 0 {
			shape = append(shape, 2)
		}
	default:
		shape = []int64{int64(g.rng.IntN(4)), -1, int64(1 + g.rng.IntN(4))}
	}
	if g.rng.IntN(3) == 0 {
		shape = append(shape, 1)
	}
	return fmt.Sprintf("Reshape(%s, [%s])", v.name, joined(shape)), 1
}

// computedReshape takes its shape from vectors, or from the dimensions of values one by one.
func computedReshape(g *generator) (string, int) {
	v, ok := g.float(1, 6)
	if !ok {
		return "", 0
	}
	if s, ok := g.pick(1, 1, tensor.Int64); ok && g.rng.IntN(3) == 0 {
		return fmt.Sprintf("Reshape(%s, %s)", v.name, s.name), 1
	}
	w := v
	if g.rng.IntN(3) == 0 {
		if other, ok := g.float(1, 6); ok {
			w = other
		}
	}
	var parts []string
	order := g.rng.Perm(w.rank())
	if g.rng.IntN(2) == 0 {
		order = nil
		for i := range w.rank() {
			order = append(order, i)
		}
	}
	for i := 0; i < len(order); i++ {
		part := fmt.Sprintf("Gather(Shape(%s), [%d])", w.name, order[i])
		switch g.rng.IntN(6) {
		case 0:
			if i+1 < len(order) {
				i++
				part = fmt.Sprintf("Mul(%s, Gather(Shape(%s), [%d]))", part, w.name, order[i])
			}
		case 1:
			parts = append(parts, "[1]")
		case 2:
			if w.dims[order[i]] == 4 && w.dims3[order[i]] == 4 {
				part = "[2,2]"
			}
		case 3:
			if w.dims[order[i]] == w.dims3[order[i]] {
				part = fmt.Sprintf("[%d]", w.dims[order[i]])
			}
		default:
		}
		parts = append(parts, part)
	}
	if g.rng.IntN(4) == 0 {
		parts[g.rng.IntN(len(parts))] = "[-1]"
	}
	return fmt.Sprintf("Reshape(%s, Concat{axis=0}(%s))", v.name, strings.Join(parts, ", ")), 1
}
