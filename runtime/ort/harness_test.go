package ort_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// initialise loads the library that `make setup` fetched.
func initialise(t testing.TB) {
	t.Helper()
	path, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(path); err != nil {
		t.Fatal(err)
	}
}

// openGraph opens a model made in the test.
func openGraph(t testing.TB, model []byte) *ort.Session {
	t.Helper()
	return openFile(t, weftest.WriteFile(t, t.TempDir(), "model.onnx", model))
}

func openFile(t testing.TB, path string) *ort.Session {
	t.Helper()
	return openWith(t, path, ort.Options{})
}

// openWith opens a model file, which the end of the test closes.
func openWith(t testing.TB, path string, o ort.Options) *ort.Session {
	t.Helper()
	initialise(t)
	s, err := ort.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// openError returns the error of opening a model made in the test.
func openError(t *testing.T, model []byte) error {
	t.Helper()
	initialise(t)
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", model)
	s, err := ort.Open(path, ort.Options{})
	if err == nil {
		t.Fatalf("the model was opened, with signature %+v", s.Signature())
	}
	return err
}

// batchOf copies inputs into a new batch.
func batchOf(t testing.TB, s *ort.Session, inputs ...tensor.Tensor) *tensor.Batch {
	t.Helper()
	sig := s.Signature()
	b := tensor.NewBatch(len(sig.Inputs), len(sig.Outputs), nil)
	t.Cleanup(b.Free)
	fill(b, inputs...)
	return b
}

func fill(b *tensor.Batch, inputs ...tensor.Tensor) {
	for i, in := range inputs {
		copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
	}
}

// runOnce runs the session and returns copies of its outputs, each checked to be well-formed.
func runOnce(t testing.TB, s *ort.Session, inputs ...tensor.Tensor) []tensor.Tensor {
	t.Helper()
	b := batchOf(t, s, inputs...)
	if err := s.Run(context.WithoutCancel(t.Context()), b); err != nil {
		t.Fatalf("Run: %v", err)
	}
	return outputs(t, b)
}

func outputs(t testing.TB, b *tensor.Batch) []tensor.Tensor {
	t.Helper()
	var out []tensor.Tensor
	for i, o := range b.Outputs {
		if err := o.Check(); err != nil {
			t.Fatalf("output %d: %v", i, err)
		}
		out = append(out, tensor.Tensor{
			DType: o.DType, Shape: append(tensor.Shape{}, o.Shape...),
			Data: bytes.Clone(o.Data),
		})
	}
	return out
}

// same fails the test unless two values are equal.
func same[T any](t testing.TB, want, got T, what ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		if len(what) > 0 {
			diff = fmt.Sprintf(what[0].(string), what[1:]...) + "\n" + diff
		}
		t.Errorf("(-want +got) %s", diff)
	}
}

var floats, stringsOf = weftest.Floats, weftest.Words

func int64s(shape tensor.Shape, values ...int64) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Int64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(v))
	}
	return t
}

func bools(shape tensor.Shape, values ...bool) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Bool, Shape: shape}
	for _, v := range values {
		b := byte(0)
		if v {
			b = 1
		}
		t.Data = append(t.Data, b)
	}
	return t
}

// elementTypes pairs our element types with those of a model file.
var elementTypes = map[tensor.DType]onnxgraph.DType{
	tensor.Bool: onnxgraph.Bool,
	tensor.Int8: onnxgraph.Int8, tensor.Int16: onnxgraph.Int16, tensor.Int32: onnxgraph.Int32,
	tensor.Int64: onnxgraph.Int64,
	tensor.Uint8: onnxgraph.Uint8, tensor.Uint16: onnxgraph.Uint16, tensor.Uint32: onnxgraph.Uint32,
	tensor.Uint64:  onnxgraph.Uint64,
	tensor.Float16: onnxgraph.Float16, tensor.BFloat16: onnxgraph.BFloat16,
	tensor.Float32: onnxgraph.Float, tensor.Float64: onnxgraph.Double,
	tensor.String: onnxgraph.String,
}

// eachType runs f for every element type.
func eachType(t *testing.T, f func(t *testing.T, d tensor.DType)) {
	for d := tensor.Bool; d <= tensor.String; d++ {
		t.Run(d.String(), func(t *testing.T) { f(t, d) })
	}
}

// sample returns a value whose elements differ from each other (as far as there are so many), and are finite.
func sample(d tensor.DType, shape tensor.Shape) tensor.Tensor {
	n, _ := shape.Elements()
	v := tensor.Tensor{DType: d, Shape: shape}
	for i := range n {
		switch d {
		case tensor.String:
			v.Data = tensor.AppendString(v.Data, bytes.Repeat([]byte{byte(i)}, int(i%5)))
		case tensor.Bool:
			v.Data = append(v.Data, byte(i%2))
		default:
			element := make([]byte, d.Size())
			element[0] = byte(i + 1)
			v.Data = append(v.Data, element...)
		}
	}
	return v
}

// declare adds an input (field 11) or output (12) of a given TypeProto to a finished model: two encodings of a message,
// one after the other, are the encoding of both merged.
func declare(model []byte, field protowire.Number, name string, typeProto []byte) []byte {
	info := protowire.AppendTag(nil, 1, protowire.BytesType)
	info = protowire.AppendString(info, name)
	info = nest(info, 2, typeProto)
	return nest(bytes.Clone(model), 7, nest(nil, field, info))
}

func nest(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

const (
	inputField  = 11
	outputField = 12
)

// tensorType is the TypeProto of a tensor that declares no shape.
func tensorType(element onnxgraph.DType) []byte {
	elem := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(element))
	return nest(nil, 1, elem)
}

// sequenceType is the TypeProto of a sequence of such tensors.
func sequenceType(element onnxgraph.DType) []byte {
	return nest(nil, 4, nest(nil, 1, tensorType(element)))
}

// optionalType is the TypeProto of such a tensor that may be missing.
func optionalType(element onnxgraph.DType) []byte {
	return nest(nil, 9, nest(nil, 1, tensorType(element)))
}
