package modelrepo

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// Declared is the signature that a config.pbtxt says the model has.
type Declared struct {
	// File is that file. What is kept of a model does not depend on where it lies.
	File string `json:"-"`
	// Rows: shapes lack the dimension of the batch, which is the model's first; else they are whole. MaybeRows: either.
	Rows, MaybeRows bool
	// Inputs and Outputs are empty where the file leaves it to the model.
	Inputs, Outputs []DeclaredTensor
}

// DeclaredTensor is one input or output.
type DeclaredTensor struct {
	Name  string
	DType tensor.DType // Invalid: any
	Shape tensor.Shape // that of the model
	Shown tensor.Shape // which clients see instead; nil: that of the model
	// LabelFile has the label of each element of a row, one a line; "" for none. It lies in the model's directory.
	LabelFile string
	// Optional: requests may leave it out.
	Optional bool
}

// Check compares the declaration with the signature of the opened model, whose state the file need not list. A nil d
// declares nothing.
func (d *Declared) Check(s *tensor.Signature, state *State) error {
	if d == nil {
		return nil
	}
	if len(d.Inputs) > 0 {
		for i := range s.Inputs {
			is := func(t DeclaredTensor) bool { return t.Name == s.Inputs[i].Name }
			if !slices.ContainsFunc(d.Inputs, is) && !state.names(s.Inputs[i].Name) {
				return fmt.Errorf("%s: the model has the input %q, which the file does not have; add it, or remove all inputs",
					d.File, s.Inputs[i].Name)
			}
		}
	}
	if err := d.compare("input", d.Inputs, slices.Concat(s.Inputs, s.Optional)); err != nil {
		return err
	}
	return d.compare("output", d.Outputs, s.Outputs)
}

// compare compares one side.
func (d *Declared) compare(side string, declared []DeclaredTensor, has []tensor.Spec) error {
	for _, t := range declared {
		i := slices.IndexFunc(has, func(s tensor.Spec) bool { return s.Name == t.Name })
		if i < 0 {
			names := make([]string, len(has))
			for j := range has {
				names[j] = has[j].Name
			}
			return fmt.Errorf("%s: %s %q: the model has no such %s, only %s; correct the name, or remove it",
				d.File, side, t.Name, side, list(names))
		}
		spec := &has[i]
		if t.DType != tensor.Invalid && t.DType != spec.DType {
			return fmt.Errorf("%s: %s %q: the data type is %v, but the model expects %v; correct data_type",
				d.File, side, t.Name, t.DType, spec.DType)
		}
		whole := t.Shape
		if d.Rows {
			whole = append(tensor.Shape{tensor.Unknown}, t.Shape...)
		}
		fits := sameSizes(whole, spec.Shape)
		if d.MaybeRows {
			fits = fits || sameSizes(append(tensor.Shape{tensor.Unknown}, t.Shape...), spec.Shape)
		}
		switch {
		case d.Rows && (len(spec.Shape) == 0 || spec.Shape[0] != tensor.Unknown):
			return fmt.Errorf("%s: %s %q: max_batch_size is above 0, so the model's first dimension must be open, as that of "+
				"the batch, but its shape is %v; set max_batch_size: 0, and whole shapes as dims", d.File, side, t.Name,
				spec.Shape)
		case !fits && d.Rows:
			return fmt.Errorf("%s: %s %q: dims %v, with the dimension of the batch before them %v (max_batch_size is above 0), "+
				"but the model expects %v; correct dims", d.File, side, t.Name, t.Shape, whole, spec.Shape)
		case !fits:
			return fmt.Errorf("%s: %s %q: dims %v, but the model expects %v; correct dims, or set max_batch_size if they are "+
				"without the dimension of the batch", d.File, side, t.Name, t.Shape, spec.Shape)
		}
	}
	return nil
}

// sameSizes reports whether two shapes agree where neither leaves the size open.
func sameSizes(a, b tensor.Shape) bool {
	return slices.EqualFunc(a, b,
		func(x, y int64) bool { return x == y || x == tensor.Unknown || y == tensor.Unknown })
}

// alike reports whether two shapes have as many elements, and as many sizes that vary.
func alike(a, b tensor.Shape) bool {
	elements := [2]float64{1, 1}
	varies := [2]int{}
	for i, s := range []tensor.Shape{a, b} {
		for _, size := range s {
			if size == tensor.Unknown {
				varies[i]++
			} else {
				elements[i] *= float64(size)
			}
		}
	}
	return elements[0] == elements[1] && varies[0] == varies[1]
}

// tritonTypes are the types of elements by Triton's names.
var tritonTypes = map[inference.DataType]tensor.DType{
	inference.DataType_TYPE_BOOL: tensor.Bool, inference.DataType_TYPE_UINT8: tensor.Uint8,
	inference.DataType_TYPE_UINT16: tensor.Uint16, inference.DataType_TYPE_UINT32: tensor.Uint32,
	inference.DataType_TYPE_UINT64: tensor.Uint64, inference.DataType_TYPE_INT8: tensor.Int8,
	inference.DataType_TYPE_INT16: tensor.Int16, inference.DataType_TYPE_INT32: tensor.Int32,
	inference.DataType_TYPE_INT64: tensor.Int64, inference.DataType_TYPE_FP16: tensor.Float16,
	inference.DataType_TYPE_FP32: tensor.Float32, inference.DataType_TYPE_FP64: tensor.Float64,
	inference.DataType_TYPE_STRING: tensor.String, inference.DataType_TYPE_BF16: tensor.BFloat16,
}

// tensors keeps what the file says of inputs and outputs, which only the opened model can be compared with.
func (t *tritonConfig) tensors() {
	d := &Declared{
		File: t.doc.File(), Rows: t.c.GetMaxBatchSize() > 0, MaybeRows: !t.has("max_batch_size"),
	}
	named := map[string]bool{}
	for i, in := range t.c.GetInput() {
		if named[in.GetName()] {
			t.fault(fmt.Sprintf("input[%d].name", i),
				"there is an input of that name already; expected each name once, found %q", in.GetName())
		}
		named[in.GetName()] = true
		at := fmt.Sprintf("input[%d]", i)
		is := t.tensor(at, in, in.GetDims(), in.GetReshape())
		is.Optional, t.told[at+".optional"] = in.GetOptional(), true
		d.Inputs = append(d.Inputs, is)
	}
	for i, out := range t.c.GetOutput() {
		at := fmt.Sprintf("output[%d]", i)
		is := t.tensor(at, out, out.GetDims(), out.GetReshape())
		is.LabelFile = t.labelFile(at+".label_filename", out.GetLabelFilename())
		d.Outputs = append(d.Outputs, is)
	}
	if len(d.Inputs)+len(d.Outputs) > 0 {
		t.m.Declared = d
	}
}

func (t *tritonConfig) tensor(at string, of interface {
	GetName() string
	GetDataType() inference.DataType
}, dims []int64, reshape *inference.ModelTensorReshape,
) DeclaredTensor {
	for _, field := range []string{".name", ".data_type", ".dims", ".reshape"} {
		t.told[at+field] = true
	}
	if of.GetName() == "" {
		t.fault(at, "it has no name; expected that of one of the model's tensors")
	}
	for _, n := range dims {
		if n < 1 && n != tensor.Unknown {
			t.fault(at+".dims", "%d; expected positive sizes, or -1 where it varies", n)
			break
		}
	}
	d := DeclaredTensor{Name: of.GetName(), Shape: slices.Clone(dims)}
	if reshape != nil {
		d.Shape, d.Shown = slices.Clone(reshape.GetShape()), d.Shape
		if d.Shown == nil {
			d.Shown = tensor.Shape{}
		}
		if !alike(d.Shape, d.Shown) {
			t.fault(at+".reshape", "the shape %v, for dims %v; expected one of as many elements, with as many sizes of -1",
				d.Shape, d.Shown)
		}
	}
	dtype, ok := tritonTypes[of.GetDataType()]
	if !ok && of.GetDataType() != inference.DataType_TYPE_INVALID {
		t.fault(at+".data_type", "%v is no type of elements; expected such as TYPE_FP32", of.GetDataType())
	}
	d.DType = dtype
	return d
}
