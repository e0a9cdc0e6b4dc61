package structure

// Operators that are known to let rows meet, so that the verdict can say how.
var mixingOperators = tableOf(
	each("", operator{apply: never("it draws random numbers"), opaque: true},
		"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
	each("", operator{apply: never("how many elements it gives depends on all of them")}, "NonZero", "Unique", "StringNormalizer"),
	each("", operator{apply: compress}, "Compress"),
	each("", operator{apply: minglesAll}, "DynamicQuantizeLinear"),
	each(microsoft, operator{apply: minglesAll},
		"DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
	each("", operator{apply: never("it sets its elements by their place")}, "EyeLike", "MaxUnpool"),
	each("", operator{apply: never("it looks up images by their number")}, "RoiAlign", "MaxRoiPool", "NonMaxSuppression"),
)

// minglesAll is the rule of what scales all elements by the largest and the smallest of them.
func minglesAll(c *call) []*value {
	return c.mixed("it has the largest and the smallest of all elements decide")
}

func never(reason string) rule {
	return func(c *call) []*value { return c.no("%s", reason) }
}

// compress keeps the entries along an axis that a condition chooses.
func compress(c *call) []*value {
	v, ok := c.data(0)
	if !ok || !c.uniform(1) {
		return nil
	}
	if c.attrs["axis"] == nil {
		return c.no("it takes elements out of all rows together")
	}
	at, ok := c.axis(0, v)
	if !ok {
		return nil
	}
	if v.holds(at) {
		return c.meets(0, "picks entries of")
	}
	dims := append([]dim{}, v.dims...)
	dims[at] = c.fresh()
	return []*value{like(v, dims, v.axis)}
}
