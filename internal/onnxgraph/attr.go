package onnxgraph

// Attr is one attribute of a node.
type Attr struct{ encoded message }

// newAttr starts an AttributeProto; kind is a number of AttributeProto.AttributeType.
func newAttr(name string, kind int64, value func(m *message)) Attr {
	var m message
	m.text(1, name)
	value(&m)
	m.int(20, kind)
	return Attr{m}
}

// FloatAttr is an attribute of one float.
func FloatAttr(name string, v float32) Attr {
	return newAttr(name, 1, func(m *message) { m.float(2, v) })
}

// IntAttr is an attribute of one integer. A boolean attribute is 0 or 1, a type attribute (Cast's "to") a [DType].
func IntAttr(name string, v int64) Attr {
	return newAttr(name, 2, func(m *message) { m.int(3, v) })
}

// StringAttr is an attribute of one string.
func StringAttr(name, v string) Attr {
	return newAttr(name, 3, func(m *message) { m.text(4, v) })
}

// RefAttr is an attribute of a node in a function that takes the value that the call gives the attribute ref. Kind is
// its AttributeProto.AttributeType: 1 float, 2 int, 3 string, 7 ints.
func RefAttr(name, ref string, kind int64) Attr {
	return newAttr(name, kind, func(m *message) { m.text(21, ref) })
}

// TensorAttr is an attribute of one tensor, such as Constant's "value"; raw is as in [Graph.Init].
func TensorAttr(name string, dtype DType, shape []int64, raw []byte) Attr {
	return newAttr(name, 4, func(m *message) { m.bytes(5, rawTensor("", dtype, shape, raw)) })
}

// GraphAttr is an attribute of a graph, such as the branches of If; of g only the graph counts, not the operator sets.
func GraphAttr(name string, g *Graph) Attr {
	return newAttr(name, 5, func(m *message) { m.bytes(6, g.graph()) })
}

// FloatsAttr is an attribute of a list of floats.
func FloatsAttr(name string, vs ...float32) Attr {
	return newAttr(name, 6, func(m *message) {
		for _, v := range vs {
			m.float(7, v)
		}
	})
}

// StringsAttr is an attribute of a list of strings.
func StringsAttr(name string, vs ...string) Attr {
	return newAttr(name, 8, func(m *message) {
		for _, v := range vs {
			m.text(9, v)
		}
	})
}

// IntsAttr is an attribute of a list of integers, such as "axes" or "perm".
func IntsAttr(name string, vs ...int64) Attr {
	return newAttr(name, 7, func(m *message) {
		for _, v := range vs {
			m.int(8, v)
		}
	})
}
