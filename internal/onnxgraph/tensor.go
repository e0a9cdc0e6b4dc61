package onnxgraph

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// DType is an element type.
type DType = onnx.TensorProto_DataType

// The element types of tensors.
const (
	Float    = onnx.TensorProto_FLOAT
	Uint8    = onnx.TensorProto_UINT8
	Int8     = onnx.TensorProto_INT8
	Uint16   = onnx.TensorProto_UINT16
	Int16    = onnx.TensorProto_INT16
	Int32    = onnx.TensorProto_INT32
	Int64    = onnx.TensorProto_INT64
	String   = onnx.TensorProto_STRING
	Bool     = onnx.TensorProto_BOOL
	Float16  = onnx.TensorProto_FLOAT16
	Double   = onnx.TensorProto_DOUBLE
	Uint32   = onnx.TensorProto_UINT32
	Uint64   = onnx.TensorProto_UINT64
	BFloat16 = onnx.TensorProto_BFLOAT16
)

// Init adds a constant tensor. Raw holds its elements little-endian in row-major order; strings have no raw
// form, see [Graph.InitStrings]. An empty shape is a scalar.
func (g *Graph) Init(name string, dtype DType, shape []int64, raw []byte) *Graph {
	g.graph.Initializer = append(g.graph.Initializer, rawTensor(name, dtype, shape, raw))
	return g
}

// InitFloats adds a constant float32 tensor.
func (g *Graph) InitFloats(name string, shape []int64, values ...float32) *Graph {
	return g.Init(name, Float, shape, FloatBytes(values))
}

// InitInt64s adds a constant int64 tensor, such as the shape for a Reshape.
func (g *Graph) InitInt64s(name string, shape []int64, values ...int64) *Graph {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return g.Init(name, Int64, shape, raw)
}

// InitStrings adds a constant tensor of strings.
func (g *Graph) InitStrings(name string, shape []int64, values ...string) *Graph {
	t := tensor(name, String, shape)
	t.StringData = texts(values)
	g.graph.Initializer = append(g.graph.Initializer, t)
	return g
}

// ExternalInit adds a constant tensor whose bytes lie in another file, which the caller writes: length bytes
// from offset of file, a path relative to the model's folder.
func (g *Graph) ExternalInit(name string, dtype DType, shape []int64, file string, offset, length int64) *Graph {
	t := tensor(name, dtype, shape)
	t.DataLocation = onnx.TensorProto_EXTERNAL.Enum()
	for _, entry := range [][2]string{
		{"location", file}, {"offset", strconv.FormatInt(offset, 10)}, {"length", strconv.FormatInt(length, 10)},
	} {
		t.ExternalData = append(t.ExternalData, &onnx.StringStringEntryProto{Key: &entry[0], Value: &entry[1]})
	}
	g.graph.Initializer = append(g.graph.Initializer, t)
	return g
}

// FloatBytes returns values as [Graph.Init] wants them: 4 bytes each, little-endian.
func FloatBytes(values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// tensor returns a tensor without its elements. A tensor in an attribute has no name.
func tensor(name string, dtype DType, shape []int64) *onnx.TensorProto {
	t := &onnx.TensorProto{Dims: shape, DataType: new(int32(dtype))}
	if name != "" {
		t.Name = &name
	}
	return t
}

// rawTensor returns a tensor with a copy of raw as its elements.
func rawTensor(name string, dtype DType, shape []int64, raw []byte) *onnx.TensorProto {
	t := tensor(name, dtype, shape)
	t.RawData = append([]byte{}, raw...) // not nil, which would be no elements
	return t
}
