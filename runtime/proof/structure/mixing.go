package structure

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
