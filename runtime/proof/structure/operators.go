package structure

import (
	"maps"
)

// operatorKey names an operator; the standard domain is "".
type operatorKey struct{ domain, name string }

// operator is how an operator is dealt with.
type operator struct {
	apply  rule
	counts bool // the rule takes inputs that depend on how many rows there are
	walks  bool // the rule computes a graph of its own, and takes inputs that nothing is known about
	opaque bool // it does not follow from its inputs being the same for all rows that its outputs are
}

// Domains of operators.
const (
	microsoft = "com.microsoft"
	classic   = "ai.onnx.ml" // trees, linear models and their preprocessing
)

// operators has every operator that there is a rule for.
var operators = tableOf(
	elementwiseOperators, sizeOperators, reshapeOperators, gatherOperators, reduceOperators, matmulOperators,
	convOperators, imageOperators, recurrentOperators, controlOperators, quantizedOperators, contribOperators,
	classicOperators, mixingOperators,
)

func tableOf(families ...map[operatorKey]operator) map[operatorKey]operator {
	all := map[operatorKey]operator{}
	for _, family := range families {
		maps.Copy(all, family)
	}
	return all
}

// each gives several operators of one domain the same rule.
func each(domain string, op operator, names ...string) map[operatorKey]operator {
	table := map[operatorKey]operator{}
	for _, name := range names {
		table[operatorKey{domain, name}] = op
	}
	return table
}

// Operators that are not proven of rows, and are known so that the verdict can say why.
var mixingOperators = tableOf(
	each("", operator{apply: never("it draws random numbers"), opaque: true},
		"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
	each("", operator{apply: never("how many elements it gives depends on all of them")}, "NonZero", "Unique",
		"StringNormalizer"),
	each("", operator{apply: minglesAll}, "DynamicQuantizeLinear"),
	each(microsoft, operator{apply: minglesAll}, "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
	each("", operator{apply: never("it sets its elements by their place")}, "EyeLike", "MaxUnpool"),
	each("", operator{apply: never("it looks up images by their number")}, "RoiAlign", "MaxRoiPool",
		"NonMaxSuppression"),
)

// minglesAll is the rule of operators that scale all elements by the largest and the smallest of them.
func minglesAll(c *call) []*value {
	return c.mixed("it has the largest and the smallest of all elements decide")
}

func never(reason string) rule {
	return func(c *call) []*value { return c.no("%s", reason) }
}
