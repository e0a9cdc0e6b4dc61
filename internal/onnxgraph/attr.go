package onnxgraph

import "github.com/weftserve/weft/proto/gen/onnx"

// Attr is one attribute of a node.
type Attr = *onnx.AttributeProto

// FloatAttr is an attribute of one float.
func FloatAttr(name string, v float32) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_FLOAT.Enum(), F: &v}
}

// IntAttr is an attribute of one integer. A boolean attribute is 0 or 1, a type attribute (Cast's "to") a [DType].
func IntAttr(name string, v int64) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_INT.Enum(), I: &v}
}

// StringAttr is an attribute of one string.
func StringAttr(name, v string) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_STRING.Enum(), S: []byte(v)}
}

// RefAttr is an attribute of a node in a function that takes the value that the call gives the attribute ref.
func RefAttr(name, ref string, kind onnx.AttributeProto_AttributeType) Attr {
	return &onnx.AttributeProto{Name: &name, Type: &kind, RefAttrName: &ref}
}

// TensorAttr is an attribute of one tensor, such as Constant's "value"; raw is as in [Graph.Init].
func TensorAttr(name string, dtype DType, shape []int64, raw []byte) Attr {
	value := rawTensor("", dtype, shape, raw)
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_TENSOR.Enum(), T: value}
}

// GraphAttr is an attribute of a graph, such as a branch of If. Only the nodes, inputs, outputs and initializers of g
// count, not its operator sets: those of the model hold.
func GraphAttr(name string, g *Graph) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_GRAPH.Enum(), G: g.graph}
}

// FloatsAttr is an attribute of a list of floats.
func FloatsAttr(name string, vs ...float32) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_FLOATS.Enum(), Floats: vs}
}

// StringsAttr is an attribute of a list of strings.
func StringsAttr(name string, vs ...string) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_STRINGS.Enum(), Strings: texts(vs)}
}

// IntsAttr is an attribute of a list of integers, such as "axes" or "perm".
func IntsAttr(name string, vs ...int64) Attr {
	return &onnx.AttributeProto{Name: &name, Type: onnx.AttributeProto_INTS.Enum(), Ints: vs}
}

// texts returns strings as the messages of ONNX have them.
func texts(vs []string) (all [][]byte) {
	for _, v := range vs {
		all = append(all, []byte(v))
	}
	return all
}
