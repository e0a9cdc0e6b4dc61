package structure

// Recurrent networks: time goes along dimension 0, rows along dimension 1.
var recurrentOperators = each("", operator{apply: recurrent}, "RNN", "GRU", "LSTM")

func recurrent(c *call) []*value {
	x := c.data(0)
	switch {
	case c.flag("layout", false):
		return c.no("there is no rule for it with layout 1")
	case x.rank() != 3:
		return c.refuse("it needs 3 dimensions")
	case x.holds(0):
		return c.mingles("runs along")
	case x.holds(2):
		return c.meets(0, "takes for features")
	}
	// Sequence lengths are in input 4, states in 5 and 6. Without them there are no rows of their own: lengths are
	// equal, states zero.
	for i := 1; i < len(c.in); i++ {
		v := c.in[i]
		switch {
		case v == nil:
		case i < 4 || i > 6:
			if v.kind != shared {
				c.differs(i)
			}
		case x.kind != rows && v.kind != rows:
		case x.kind != rows || v.kind != rows || !x.dealtAs(v):
			return c.no("%s has, or may have, an entry for each row by its place", c.name(i))
		case i == 4 && (v.rank() != 1 || v.axis != 0), i > 4 && (v.rank() != 3 || v.axis != 1):
			return c.no("the rows of %s lie elsewhere than those of %s", c.name(i), c.name(0))
		}
	}
	direction := c.text("direction", "forward")
	directions := one
	if direction == "bidirectional" {
		directions = size(2)
	}
	hidden := c.fresh()
	if n := c.hint("hidden_size", -1); n >= 0 && small(n) {
		hidden = size(n)
	}
	state := func() *value { return like(x, []dim{directions, x.dims[1], hidden}, 1) }
	return []*value{like(x, []dim{x.dims[0], directions, x.dims[1], hidden}, 2), state(), state()}
}
