package structure

// Operators of ONNX Runtime's own that its tools put into models of language.
var contribOperators = tableOf(
	each(microsoft, operator{apply: fusedMatmul}, "FusedMatMul"),
	each(microsoft, operator{apply: skipNormalization}, "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
	each(microsoft, operator{apply: embed}, "EmbedLayerNormalization"),
	each(microsoft, operator{apply: attention}, "Attention"),
)

func fusedMatmul(c *call) []*value {
	var factors [2]*value
	for i, side := range []string{"A", "B"} {
		v := c.data(i)
		turn := c.flag("trans"+side, false)
		if c.flag("transBatch"+side, false) {
			return c.no("there is no rule for it with transBatch%s", side)
		}
		if turn && v.rank() >= 2 {
			v = turned(v)
		} else if turn {
			return c.no("there is no rule for turning a vector")
		}
		factors[i] = v
	}
	return c.product(factors[0], factors[1])
}

// skipNormalization adds inputs 0 and 1 and normalises over the last dimension; the others are weights.
func skipNormalization(c *call) []*value {
	v := c.data(0)
	skip := c.data(1)
	c.uniform(2)
	if v.rank() < 2 || v.holds(v.rank()-1) {
		return c.no("it normalises over dimension %d, which may hold rows", v.rank()-1)
	}
	for i := 2; i < len(c.in); i++ {
		if c.in[i] != nil && (!c.in[i].ranked || c.in[i].rank() != 1) {
			return c.no("%s is not known to have one dimension", c.name(i))
		}
	}
	out := c.broadcast([]*value{v, skip})
	// only dimensions before the last two are repeated
	if v.kind != skip.kind && (v.kind != rows || v.axis >= v.rank()-2) {
		return c.no("of %s and %s one has rows and the other does not", c.name(0), c.name(1))
	}
	last := out.rank() - 1
	return []*value{out, out.with(last, one), out.with(last, one), like(out, out.dims, out.axis)}
}

// embed looks up words, segments and positions, each [rows, length], adds their vectors and normalises the sum.
func embed(c *call) []*value {
	ids := c.data(0)
	word := c.data(2)
	// Words, segments, mask and positions are in inputs 0, 1, 7 and 8; all others are weights.
	for i, v := range c.in {
		switch {
		case v == nil:
		case i == 8 && v.kind == shared && v.ranked && v.rank() == 2 && v.dims[0].is(1): // the same positions for all
		case i == 0 || i == 1 || i == 7 || i == 8:
			if v.kind != rows || v.rank() != 2 || v.axis != 0 || !v.plain() {
				return c.no("%s does not have its rows along dimension 0 of two", c.name(i))
			}
		case v.kind != shared:
			c.differs(i)
		}
	}
	if word.rank() != 2 {
		return c.no("its table of words does not have two dimensions")
	}
	dims := []dim{ids.dims[0], ids.dims[1], word.dims[1]}
	return []*value{rowsOf(dims, 0), rowsOf([]dim{perRow}, 0), rowsOf(dims, 0)}
}

// attention is of each row to its own past and itself: input [rows, length, features], past and present [2, rows,
// heads, length, features].
func attention(c *call) []*value {
	v := c.data(0)
	if v.kind != rows || v.rank() != 3 || v.axis != 0 || !v.plain() {
		return c.no("%s does not have its rows along dimension 0 of three", c.name(0))
	}
	for i := 1; i < len(c.in); i++ {
		w := c.in[i]
		switch {
		case w == nil:
		case i <= 2: // weights and bias
			if w.kind != shared {
				c.differs(i)
			}
		case i == 3: // mask
			if w.kind != rows || w.axis != 0 || !w.plain() || w.rank() > 3 {
				return c.no("its mask %s does not have its rows along dimension 0", c.name(i))
			}
		case i == 4: // past
			if w.kind != rows || w.axis != 1 || !w.plain() || w.rank() != 5 {
				return c.no("its past %s does not have its rows along dimension 1 of five", c.name(i))
			}
		default:
			return c.no("there is no rule for its input %d", i)
		}
	}
	if c.attrs["past_present_share_buffer"] != nil || c.attrs["qkv_hidden_sizes"] != nil {
		return c.no("there is no rule for its attributes")
	}
	heads := c.fresh()
	if n := c.hint("num_heads", 0); n > 0 && small(n) {
		heads = size(n)
	}
	present := rowsOf([]dim{size(2), perRow, heads, c.fresh(), c.fresh()}, 1)
	out := []dim{v.dims[0], v.dims[1], v.dims[2]}
	if bias := c.input(2); bias != nil && bias.ranked && bias.rank() == 1 {
		if d, ok := bias.dims[0].over(size(3)); ok {
			out[2] = d
		}
	}
	return []*value{rowsOf(out, 0), present}
}
