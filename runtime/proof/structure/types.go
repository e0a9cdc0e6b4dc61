package structure

import "github.com/weftserve/weft/proto/gen/onnx"

// typeSet has the element types that tensors of a model may have: the types of its inputs and constants, and the types
// that operators make by name. A rule needs them where ONNX Runtime computes otherwise with one type than with others.
type typeSet map[onnx.TensorProto_DataType]bool

// anyType is in the set where a caller of a function chooses the type.
const anyType onnx.TensorProto_DataType = -1

func (s typeSet) has(t onnx.TensorProto_DataType) bool { return s[t] || s[anyType] }

func (s typeSet) add(t int32) { s[onnx.TensorProto_DataType(t)] = true }

func (s typeSet) addGraph(g *onnx.GraphProto) {
	for _, in := range g.GetInput() {
		s.add(in.GetType().GetTensorType().GetElemType())
	}
	for _, t := range g.GetInitializer() {
		s.add(t.GetDataType())
	}
	for _, t := range g.GetSparseInitializer() {
		s.add(t.GetValues().GetDataType())
	}
	s.addNodes(g.GetNode())
}

func (s typeSet) addNodes(nodes []*onnx.NodeProto) {
	for _, n := range nodes {
		if n.GetDomain() == classic {
			s[onnx.TensorProto_STRING] = true // as labels
		}
		for _, a := range n.GetAttribute() {
			s.add(a.GetT().GetDataType())
			s.addGraph(a.GetG())
			switch a.GetName() {
			case "to", "dtype", "output_dtype", "output_datatype":
				s.add(int32(a.GetI()))
				s[anyType] = s[anyType] || a.GetRefAttrName() != ""
			case "value":
				s[anyType] = s[anyType] || a.GetRefAttrName() != ""
			case "value_string", "value_strings":
				s[onnx.TensorProto_STRING] = true
			default: // of no type
			}
		}
	}
}
