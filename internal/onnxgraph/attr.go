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

// TensorAttr is an attribute of one tensor, such as Constant's "value"; raw is as in [Graph.Init].
func TensorAttr(name string, dtype DType, shape []int64, raw []byte) Attr {
	return newAttr(name, 4, func(m *message) { m.bytes(5, rawTensor("", dtype, shape, raw)) })
}

// IntsAttr is an attribute of a list of integers, such as "axes" or "perm".
func IntsAttr(name string, vs ...int64) Attr {
	return newAttr(name, 7, func(m *message) {
		for _, v := range vs {
			m.int(8, v)
		}
	})
}
