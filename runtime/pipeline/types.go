package pipeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// meet compares the type of a value with that of an input of a step, their sizes by fit.
func (m *merger) meet(key, from string, of input, at *step, want *onnx.TypeProto, fit func(a, b size) bool) {
	is := of.is
	if is == nil || want == nil { // as a model may leave it to the runtime
		return
	}
	a, b := is.GetTensorType(), want.GetTensorType()
	fits := (a == nil) == (b == nil) && a.GetElemType() == b.GetElemType()
	if fits && a.GetShape() != nil && b.GetShape() != nil {
		fits = len(a.GetShape().GetDim()) == len(b.GetShape().GetDim())
		for i, d := range a.GetShape().GetDim() {
			fits = fits && fit(sizeOf(of.first, d), sizeOf(at.Name, b.GetShape().GetDim()[i]))
		}
	}
	if !fits {
		m.fault(key, "%s is %s, and %s takes %s; expected the output of a step, or an input of the pipeline, of that type",
			from, describe(is), at, describe(want))
	}
}

// forget drops the names of sizes that change from run to run of a step, as where a value grows. What the step gets is
// of its first run, and what it gives of its last.
func (s *step) forget() {
	changing := map[string]bool{}
	for in, out := range s.Carry {
		next := s.gives[out].GetTensorType().GetShape().GetDim()
		for i, d := range s.typeOf(in).GetTensorType().GetShape().GetDim() {
			changing[d.GetDimParam()] = changing[d.GetDimParam()] || i >= len(next) || next[i].GetDimParam() != d.GetDimParam()
		}
	}
	for out, t := range s.gives {
		s.gives[out] = without(t, func(name string) bool { return changing[name] })
	}
}

// size is a size in the models of the steps: a number, a name in one of them, or neither.
type size struct {
	step, name string
	n          int64
}

func sizeOf(step string, d *onnx.TensorShapeProto_Dimension) size {
	if _, is := d.GetValue().(*onnx.TensorShapeProto_Dimension_DimValue); is {
		return size{n: d.GetDimValue()}
	}
	return size{step: step, name: d.GetDimParam()}
}

// follows reports whether a value of one size may be carried to an input of the other. Only numbers decide it: what is
// carried may grow from run to run.
func (a size) follows(b size) bool { return a == b || a.step != "" || b.step != "" }

// sizes knows which sizes are one: a union-find structure, in which numbers are roots.
type sizes struct {
	of    map[size]size
	taken map[string]size // names in the merged model, by whom they stand for
}

func newSizes() *sizes { return &sizes{of: map[size]size{}, taken: map[string]size{}} }

func (s *sizes) root(a size) size {
	for {
		next, has := s.of[a]
		if !has {
			return a
		}
		a = next
	}
}

// join makes one of two sizes; false: they are different numbers. Nothing is known of a size that has neither a name
// nor a number.
func (s *sizes) join(a, b size) bool {
	a, b = s.root(a), s.root(b)
	switch {
	case a == b || a.unnamed() || b.unnamed():
	case a.step == "" && b.step == "":
		return false
	case a.step == "":
		s.of[b] = a
	default:
		s.of[a] = b
	}
	return true
}

func (a size) unnamed() bool { return a.step != "" && a.name == "" }

// shown returns a type as the merged model has it: a name that two sizes would have is that of the first of them.
func (s *sizes) shown(step string, t *onnx.TypeProto) *onnx.TypeProto {
	shape := t.GetTensorType().GetShape()
	for i, d := range shape.GetDim() {
		is := s.root(sizeOf(step, d))
		switch {
		case is.unnamed():
			continue
		case is.step == "":
			shape.Dim[i] = &onnx.TensorShapeProto_Dimension{
				Value: &onnx.TensorShapeProto_Dimension_DimValue{DimValue: is.n},
			}
			continue
		}
		name := is.name
		for other, taken := s.taken[name]; taken && other != is; other, taken = s.taken[name] {
			name = is.step + "." + name
		}
		s.taken[name] = is
		shape.Dim[i] = &onnx.TensorShapeProto_Dimension{
			Value: &onnx.TensorShapeProto_Dimension_DimParam{DimParam: name},
		}
	}
	return t
}

// floats are Weft's names of element types that ONNX calls otherwise.
var floats = map[string]string{"float": "fp32", "double": "fp64", "float16": "fp16", "bfloat16": "bf16"}

// describe names a type in messages, such as "fp32 [N,64]".
func describe(t *onnx.TypeProto) string {
	tensor := t.GetTensorType()
	if tensor == nil {
		return "no tensor"
	}
	dtype := strings.ToLower(onnx.TensorProto_DataType(tensor.GetElemType()).String())
	dtype = cmp.Or(floats[dtype], dtype)
	if tensor.GetShape() == nil {
		return dtype + " of any shape"
	}
	var dims []string
	for _, d := range tensor.GetShape().GetDim() {
		switch {
		case d.GetDimParam() != "":
			dims = append(dims, d.GetDimParam())
		case d.GetValue() == nil:
			dims = append(dims, "?")
		default:
			dims = append(dims, strconv.FormatInt(d.GetDimValue(), 10))
		}
	}
	return fmt.Sprintf("%s [%s]", dtype, strings.Join(dims, ","))
}
