package structure

import (
	"slices"
	"strings"
)

// Products of matrices.
var matmulOperators = tableOf(
	each("", operator{apply: matmul}, "MatMul"),
	each("", operator{apply: gemm}, "Gemm"),
	each("", operator{apply: einsum}, "Einsum"),
)

func matmul(c *call) []*value {
	a := c.data(0)
	b := c.data(1)
	c.uniform(2)
	return c.product(a, b)
}

// product is the product of stacks of matrices: the last two dimensions are the matrix, those before broadcast. A
// vector is a row on the left and a column on the right, and that dimension is dropped again.
func (c *call) product(a, b *value) []*value {
	if a.rank() == 0 || b.rank() == 0 {
		return c.no("it needs matrices")
	}
	left, right := a, b
	if a.rank() == 1 {
		left = a.added(0, one)
	}
	if b.rank() == 1 {
		right = b.added(1, one)
	}
	switch {
	case left.holds(left.rank() - 1):
		return c.mixed("it sums over the rows of %s", c.nameOf(a))
	case right.holds(right.rank() - 2):
		return c.mixed("it sums over the rows of %s", c.nameOf(b))
	}
	// Both sides' parts of the result, so that rows that meet are seen by broadcasting: the other side has one entry
	// there.
	brought := []*value{left.with(left.rank()-1, one), right.with(right.rank()-2, one)}
	var out *value
	if why := c.reasonOf(func() { out = c.broadcast(brought) }); why != nil { // it speaks of values made up here
		if a.kind == rows && b.kind == rows {
			c.mixes = why.mixes
			return c.no("rows of %s meet rows of %s", c.nameOf(a), c.nameOf(b))
		}
		return c.no("one of its factors has, or may have, a matrix for each row of the other by its place")
	}
	if b.rank() == 1 {
		out = out.without(out.rank() - 1)
	}
	if a.rank() == 1 {
		out = out.without(out.rank() - 1 - int(truth(b.rank() > 1)))
	}
	return []*value{out}
}

// turned swaps the last two dimensions.
func turned(v *value) *value {
	n := v.rank()
	dims := slices.Clone(v.dims)
	dims[n-1], dims[n-2] = dims[n-2], dims[n-1]
	axis := v.axis
	switch axis {
	case n - 1:
		axis = n - 2
	case n - 2:
		axis = n - 1
	}
	return like(v, dims, axis)
}

func gemm(c *call) []*value {
	var factors [2]*value
	for i, flag := range []string{"transA", "transB"} {
		v := c.data(i)
		turn := c.flag(flag, false)
		if v.rank() != 2 {
			return c.no("it needs matrices")
		}
		if turn {
			v = turned(v)
		}
		factors[i] = v
	}
	made := c.product(factors[0], factors[1])
	if c.input(2) == nil {
		return made
	}
	bias := c.data(2)
	if bias.rank() > 2 {
		return c.no("its input 2 has more than two dimensions")
	}
	if bias.kind == rows && made[0].kind != rows {
		return c.no("%s has rows and the product has none", c.name(2))
	}
	return []*value{c.broadcast([]*value{made[0], bias})}
}

// einsum follows equations without an ellipsis.
func einsum(c *call) []*value {
	equation := strings.ReplaceAll(c.text("equation", ""), " ", "")
	terms, result, explicit := strings.Cut(equation, "->")
	inputs := strings.Split(terms, ",")
	if !explicit || len(inputs) != len(c.in) || strings.Contains(equation, ".") {
		return c.no("there is no rule for the equation %q", equation)
	}
	var first *value
	row := byte(0)
	dims := map[byte]dim{}
	for i, term := range inputs {
		v := c.data(i)
		if v.rank() != len(term) {
			return c.no("the equation %q does not fit the %d dimensions of %s", equation, v.rank(), c.name(i))
		}
		for at := range term {
			letter := term[at]
			if old, ok := dims[letter]; !ok {
				dims[letter] = v.dims[at]
			} else if !v.holds(at) {
				dims[letter] = c.common(old, v.dims[at])
			}
			if v.holds(at) {
				switch {
				case first == nil:
					first, row = v, letter
				case letter != row || !v.dealtAs(first):
					return c.mixed("the rows of %s lie elsewhere than those of %s", c.name(i), c.nameOf(first))
				}
			}
		}
	}
	out := sharedOf(nil)
	seen := map[byte]bool{}
	for at := range result {
		letter := result[at]
		d, ok := dims[letter]
		if !ok || seen[letter] {
			return c.no("there is no rule for the equation %q", equation)
		}
		seen[letter] = true
		out.dims = append(out.dims, d)
		if first != nil && letter == row {
			out.axis = at
		}
	}
	if first == nil {
		return []*value{out}
	}
	if !seen[row] {
		return c.mixed("it sums over the rows of %s", c.nameOf(first))
	}
	for i, term := range inputs {
		v := c.in[i]
		if n := strings.Count(term, string(row)); n > 1 || n == 1 && v.kind != rows {
			return c.no("%s has, or may have, an entry for each row by its place", c.name(i))
		}
	}
	out.dims[out.axis] = first.dims[first.axis]
	return []*value{like(first, out.dims, out.axis)}
}
