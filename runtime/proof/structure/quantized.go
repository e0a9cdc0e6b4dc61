package structure

// Operators on quantised numbers. Scales and zero points must be the same for all rows.
var quantizedOperators = tableOf(
	each("", operator{apply: quantize}, "QuantizeLinear", "DequantizeLinear"),
	each(microsoft, operator{apply: quantize}, "QuantizeLinear", "DequantizeLinear"),
	each("", operator{apply: matmulInteger}, "MatMulInteger"),
	each("", operator{apply: quantizedMatmul}, "QLinearMatMul"),
	each("", operator{apply: quantizedConv}, "QLinearConv"),
	each("", operator{apply: conv(1)}, "ConvInteger"),
	each(microsoft, operator{apply: matmulIntegerToFloat}, "MatMulIntegerToFloat"),
	each(microsoft, operator{apply: quantizedBinary}, "QLinearAdd", "QLinearMul"),
	each(microsoft, operator{apply: quantizedUnary}, "QLinearSigmoid", "QLinearLeakyRelu"),
	each(microsoft, operator{apply: quantizedPool}, "QLinearGlobalAveragePool"),
)

// singles demands that inputs are one number for the whole tensor, or left out.
func (c *call) singles(inputs ...int) {
	for _, i := range inputs {
		if v := c.input(i); v != nil && !v.single() {
			c.no("%s is not known to be one number", c.name(i))
		}
	}
}

// quantize has one scale, or one for each entry along an axis.
func quantize(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	at := c.integer("axis", 1)
	if blocks := c.integer("block_size", 0); v.kind == rows && blocks != 0 {
		return c.no("there is no rule for it in blocks")
	}
	if v.kind == rows && (c.input(1) == nil || !c.input(1).single() || c.input(2) != nil && !c.input(2).single()) {
		if v.holds(c.place(at, v.rank())) {
			return c.meets(0, "has scales along")
		}
		for i := 1; i <= 2; i++ {
			if w := c.input(i); w != nil && !w.single() && (!w.ranked || w.rank() > 1) {
				return c.no("%s is not known to have one dimension", c.name(i))
			}
		}
	}
	return same(v)
}

func matmulInteger(c *call) []*value {
	a := c.data(0)
	b := c.data(1)
	c.uniform(2)
	c.singles(2)
	if b.kind == rows {
		c.singles(3)
	}
	return c.product(a, b)
}

// quantizedMatmul has the tensors a and b in inputs 0 and 3, each with scale and zero point behind it, and those of the
// result at the end.
func quantizedMatmul(c *call) []*value {
	a := c.data(0)
	b := c.data(3)
	c.uniform(3)
	c.singles(1, 2, 6, 7)
	for i := 1; i <= 2; i++ {
		if v := c.input(i); v == nil || v.kind != shared {
			return c.no("%s must be the same for all rows", c.name(i))
		}
	}
	return c.product(a, b)
}

func quantizedConv(c *call) []*value {
	c.singles(1, 2, 6, 7)
	return conv(3)(c)
}

// matmulIntegerToFloat has the factors in inputs 0 and 1, then their scales, their zero points, and a bias.
func matmulIntegerToFloat(c *call) []*value {
	a := c.data(0)
	b := c.data(1)
	c.uniform(1)
	c.singles(2, 4)
	made := c.product(a, b)
	if c.input(6) == nil {
		return made
	}
	return []*value{c.broadcast([]*value{made[0], c.data(6)})}
}

// quantizedBinary has its tensors in inputs 0 and 3.
func quantizedBinary(c *call) []*value {
	a := c.data(0)
	b := c.data(3)
	c.singles(1, 2, 4, 5, 6, 7)
	for _, i := range []int{1, 2, 4, 5, 6, 7} {
		if v := c.input(i); v != nil && v.kind != shared {
			c.differs(i)
		}
	}
	return []*value{c.broadcast([]*value{a, b})}
}

func quantizedUnary(c *call) []*value {
	c.singles(1, 2, 3, 4)
	return unary(c)
}

func quantizedPool(c *call) []*value {
	if c.flag("channels_last", false) {
		return c.no("there is no rule for channels in the last dimension")
	}
	c.singles(1, 2, 3, 4)
	return globalPool(c)
}
