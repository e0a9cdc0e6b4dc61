package structure

import (
	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators that make each element of their output of the elements at the same place of their inputs, which broadcast.
var elementwiseOperators = tableOf(
	each("", operator{apply: elementwise, counts: true},
		"Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot",
		"BitwiseOr", "BitwiseXor", "Ceil", "Celu", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
		"Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less",
		"LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal",
		"Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum",
		"Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor", "StringConcat", "RegexFullMatch"),
	each("", operator{apply: unary}, "Clip"),
	each("", operator{apply: cast, counts: true}, "Cast"),
	each("", operator{apply: castLike, counts: true}, "CastLike"),
	each("", operator{apply: dropout, opaque: true}, "Dropout"),
	each(microsoft, operator{apply: elementwise}, "Gelu", "QuickGelu", "FastGelu", "BiasGelu"),
)

func elementwise(c *call) []*value {
	var ins []*value
	for i := range c.in {
		if c.in[i] == nil {
			continue
		}
		ins = append(ins, c.data(i))
	}
	out := c.broadcast(ins)
	if out.kind != rows {
		if elems := c.arithmetic(ins, out.dims); elems != nil {
			out.withElems(elems)
		}
	}
	return []*value{out}
}

// unary works on the elements of its first input one by one; all others are the same for all rows.
func unary(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	return same(v)
}

// ofUint32 is why a cast to uint32 is not proven. ONNX Runtime casts the elements of a batch in packets, and the last
// ones one by one, which makes something else of NaN and of numbers out of range.
const ofUint32 = "what a cast to uint32 makes of numbers out of range depends on where a row lies in memory"

func cast(c *call) []*value {
	to := c.hint("to", 0)
	if v := c.input(0); to == int64(onnx.TensorProto_UINT32) && v != nil && v.kind == rows {
		return c.no(ofUint32)
	}
	return elementwise(c)
}

// castLike looks at the type of its second input only.
func castLike(c *call) []*value {
	v := c.data(0)
	if to := c.input(1); v.kind == rows &&
		(to == nil || to.dtype == onnx.TensorProto_UNDEFINED || to.dtype == onnx.TensorProto_UINT32) {
		return c.no(ofUint32)
	}
	return same(v)
}

// dropout lets everything through, unless it is trained.
func dropout(c *call) []*value {
	v := c.data(0)
	if c.version >= 12 {
		training := c.constants(2)
		if len(training) > 0 && training[0] != 0 {
			return c.no("it draws random numbers")
		}
	}
	return []*value{like(v, v.dims, v.axis), like(v, v.dims, v.axis)}
}

// broadcast aligns tensors of known rank from the right. Its rows are those of all that have rows, which must lie
// alike; a tensor that is the same for all rows must not have more than one entry along their axis. The elements of the
// result are not followed.
func (c *call) broadcast(ins []*value) *value {
	if len(ins) == 0 {
		c.no("it has no inputs")
	}
	rank, first := 0, (*value)(nil)
	for _, v := range ins {
		rank = max(rank, v.rank())
		if v.kind == rows && first == nil {
			first = v
		}
	}
	out := &value{ranked: true}
	axis := -1
	if first != nil {
		axis = first.axis + rank - first.rank()
		out = like(first, nil, axis)
	}
	for _, v := range ins {
		c.aligned(v, first, axis-rank)
		if v.kind == counts {
			out.kind = counts
		}
	}
	for at := range rank {
		d := one
		for _, v := range ins {
			if i := at - rank + v.rank(); i >= 0 && at != axis {
				d = c.common(d, v.dims[i])
			}
		}
		if at == axis {
			d = first.dims[first.axis]
		}
		out.dims = append(out.dims, d)
	}
	return out
}

// aligned demands that v fits next to the rows of first, which lie fromEnd (negative) dimensions from the end.
func (c *call) aligned(v, first *value, fromEnd int) {
	if first == nil {
		return
	}
	at := v.rank() + fromEnd
	switch {
	case v.kind == counts:
		c.no("it computes with how many rows there are")
	case v.kind == rows && v.axis != at:
		c.mixed("the rows of %s lie elsewhere than those of %s", c.nameOf(v), c.nameOf(first))
	case v.kind == rows && !v.dealtAs(first):
		c.no("the rows of %s lie elsewhere than those of %s", c.nameOf(v), c.nameOf(first))
	case v.kind == shared && at >= 0 && !v.dims[at].is(1):
		c.no("%s has, or may have, an entry for each row of %s by its place", c.nameOf(v), c.nameOf(first))
	}
}

func (c *call) nameOf(v *value) string {
	for i, in := range c.in {
		if in == v {
			return c.name(i)
		}
	}
	return "an input"
}

// common is the size of two dimensions that broadcast.
func (c *call) common(d, e dim) dim {
	n, fixedD := d.fixed()
	m, fixedE := e.fixed()
	switch {
	case d.equal(e) || e.is(1):
		return d
	case d.is(1):
		return e
	case fixedD && fixedE:
		c.no("dimensions %d and %d do not fit", n, m)
	case fixedD && n != 0:
		return d
	case fixedE && m != 0:
		return e
	}
	return c.fresh()
}
