package onnxgraph

import (
	"encoding/binary"
	"math"
	"strconv"
)

// DType is an element type, numbered as in ONNX's TensorProto.DataType.
type DType int32

// The element types of tensors.
const (
	Float    DType = 1
	Uint8    DType = 2
	Int8     DType = 3
	Uint16   DType = 4
	Int16    DType = 5
	Int32    DType = 6
	Int64    DType = 7
	String   DType = 8
	Bool     DType = 9
	Float16  DType = 10
	Double   DType = 11
	Uint32   DType = 12
	Uint64   DType = 13
	BFloat16 DType = 16
)

// Init adds a constant tensor. Raw holds its elements little-endian in row-major order; strings have no raw
// form, see [Graph.InitStrings]. An empty shape is a scalar.
func (g *Graph) Init(name string, dtype DType, shape []int64, raw []byte) *Graph {
	g.initializers = append(g.initializers, rawTensor(name, dtype, shape, raw))
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
	m := tensorHeader(name, String, shape)
	for _, v := range values {
		m.text(6, v)
	}
	g.initializers = append(g.initializers, m)
	return g
}

// ExternalInit adds a constant tensor whose bytes lie in another file, which the caller writes: length bytes
// from offset of file, a path relative to the model's folder.
func (g *Graph) ExternalInit(name string, dtype DType, shape []int64, file string, offset, length int64) *Graph {
	const external = 1 // TensorProto.DataLocation
	m := tensorHeader(name, dtype, shape)
	m.bytes(13, entry("location", file))
	m.bytes(13, entry("offset", strconv.FormatInt(offset, 10)))
	m.bytes(13, entry("length", strconv.FormatInt(length, 10)))
	m.int(14, external)
	g.initializers = append(g.initializers, m)
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

// tensorHeader encodes the fields that every TensorProto has.
func tensorHeader(name string, dtype DType, shape []int64) message {
	var m message
	for _, d := range shape {
		m.int(1, d)
	}
	m.int(2, int64(dtype))
	if name != "" {
		m.text(8, name)
	}
	return m
}

func rawTensor(name string, dtype DType, shape []int64, raw []byte) message {
	m := tensorHeader(name, dtype, shape)
	m.bytes(9, raw)
	return m
}
