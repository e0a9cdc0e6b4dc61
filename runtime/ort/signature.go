package ort

/*
#include "capi.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/tensor"
)

// described is an input or output as the model declares it.
type described struct {
	spec tensor.Spec
	// fault says why it cannot be served; empty if it can.
	fault string
	// ranked: the model says how many dimensions it has.
	ranked bool
}

// readSignature returns the session's inputs and outputs, each name once. Outputs that cannot be served are left out
// with a note, as are inputs that have a default; another input that cannot be fed, or no output at all, is an error.
func readSignature(api *C.weft_api, session *C.OrtSession) (*tensor.Signature, error) {
	var counts [C.WEFT_SIDES]C.size_t
	if err := take(api, C.weft_count(api, session, &counts[0])); err != nil {
		return nil, err
	}
	sig := &tensor.Signature{}
	for i := range int(counts[C.WEFT_INPUT]) {
		d, err := describe(api, session, C.WEFT_INPUT, i)
		if err != nil {
			return nil, err
		}
		if fault := d.unfit(); fault != "" {
			return nil, fmt.Errorf("input %q %s", d.spec.Name, fault)
		}
		sig.Inputs = append(sig.Inputs, d.spec)
	}
	for i := range int(counts[C.WEFT_DEFAULT]) {
		d, err := describe(api, session, C.WEFT_DEFAULT, i)
		if err != nil {
			return nil, err
		}
		if fault := d.unfit(); fault != "" {
			sig.Notes = append(sig.Notes, fmt.Sprintf("input %q always has its default: it %s", d.spec.Name, fault))
			continue
		}
		sig.Optional = append(sig.Optional, d.spec)
	}
	if len(sig.Optional) > 0 {
		sig.Notes = append(sig.Notes, "requests may leave out the inputs that have a default: "+
			listed(sig.Optional))
	}
	for i := range int(counts[C.WEFT_OUTPUT]) {
		d, err := describe(api, session, C.WEFT_OUTPUT, i)
		if err != nil {
			return nil, err
		}
		addOutput(sig, &d)
	}
	if len(sig.Outputs) == 0 {
		return nil, fmt.Errorf("the model has no output that is a tensor: %q", sig.Notes)
	}
	return sig, nil
}

// addOutput adds an output, or a note.
func addOutput(sig *tensor.Signature, d *described) {
	note := ""
	switch {
	case sig.Output(d.spec.Name) >= 0:
		// ONNX Runtime writes into one of the places that it is given for a name, and not into the others.
		note = "is listed more than once: it is answered once"
	case d.fault != "":
		note = "is left out: it " + d.fault
	default:
		sig.Outputs = append(sig.Outputs, d.spec)
		if !d.ranked {
			note = "declares no shape: its rank is known after a run only"
		}
	}
	if note != "" {
		sig.Notes = append(sig.Notes, fmt.Sprintf("output %q %s", d.spec.Name, note))
	}
}

// unfit says why an input cannot be fed; "" if it can.
func (d *described) unfit() string {
	if d.fault == "" && !d.ranked {
		return "declares no shape, so requests cannot be checked; export the model with the shape of each input " +
			"(dimensions may be dynamic)"
	}
	return d.fault
}

// listed names some tensors, with their types and shapes: a few of them where they are the weights.
func listed(specs []tensor.Spec) string {
	const few = 20
	var names []string
	for i := range specs[:min(len(specs), few)] {
		names = append(names, fmt.Sprintf("%q %v %v", specs[i].Name, specs[i].DType, specs[i].Shape))
	}
	if more := len(specs) - few; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func describe(api *C.weft_api, session *C.OrtSession, side C.weft_side, index int) (described, error) {
	c := new(C.weft_spec)
	defer C.weft_spec_free(api, c)
	if err := take(api, C.weft_describe(api, session, side, C.size_t(index), c)); err != nil {
		return described{}, err
	}
	d := described{spec: tensor.Spec{Name: C.GoString(c.name), BatchDim: tensor.NoBatch}, ranked: bool(c.ranked)}
	if kind := onnxruntime.ONNXType(c.kind); kind != onnxruntime.ONNXTypeTensor {
		d.fault = fmt.Sprintf("is %s; only dense tensors can be served", kindNames[kind])
		return d, nil
	}
	d.spec.DType = dtypeOf(onnxruntime.TensorElementDataType(c.dtype))
	if d.spec.DType == tensor.Invalid {
		d.fault = fmt.Sprintf("has element type %v, which cannot be served; cast it inside the model",
			onnxruntime.TensorElementDataType(c.dtype))
		return d, nil
	}
	if !d.ranked {
		return d, nil
	}
	d.spec.Shape = make(tensor.Shape, c.rank)
	names := make([]string, c.rank)
	for i, size := range unsafe.Slice(c.dims, c.rank) {
		d.spec.Shape[i] = max(int64(size), tensor.Unknown)
		names[i] = C.GoString(unsafe.Slice(c.symbols, c.rank)[i])
	}
	if slices.ContainsFunc(names, func(n string) bool { return n != "" }) {
		d.spec.DimNames = names
	}
	return d, nil
}

var kindNames = map[onnxruntime.ONNXType]string{
	onnxruntime.ONNXTypeUnknown:      "of an unknown kind",
	onnxruntime.ONNXTypeSequence:     "a sequence",
	onnxruntime.ONNXTypeMap:          "a map",
	onnxruntime.ONNXTypeOpaque:       "an opaque value",
	onnxruntime.ONNXTypeSparseTensor: "a sparse tensor",
	onnxruntime.ONNXTypeOptional:     "optional",
}

// elementTypes maps our element types to ONNX Runtime's numbers. Those it lacks (complex, 4- and 8-bit floats, 2- and
// 4-bit integers) cannot be served.
var elementTypes = [...]onnxruntime.TensorElementDataType{
	tensor.Bool:  onnxruntime.TensorElementDataTypeBool,
	tensor.Int8:  onnxruntime.TensorElementDataTypeInt8,
	tensor.Int16: onnxruntime.TensorElementDataTypeInt16,
	tensor.Int32: onnxruntime.TensorElementDataTypeInt32,
	tensor.Int64: onnxruntime.TensorElementDataTypeInt64,

	tensor.Uint8:  onnxruntime.TensorElementDataTypeUint8,
	tensor.Uint16: onnxruntime.TensorElementDataTypeUint16,
	tensor.Uint32: onnxruntime.TensorElementDataTypeUint32,
	tensor.Uint64: onnxruntime.TensorElementDataTypeUint64,

	tensor.Float16:  onnxruntime.TensorElementDataTypeFloat16,
	tensor.BFloat16: onnxruntime.TensorElementDataTypeBFloat16,
	tensor.Float32:  onnxruntime.TensorElementDataTypeFloat,
	tensor.Float64:  onnxruntime.TensorElementDataTypeDouble,
	tensor.String:   onnxruntime.TensorElementDataTypeString,
}

// dtypeOf is the inverse; Invalid for a type that cannot be served.
func dtypeOf(element onnxruntime.TensorElementDataType) tensor.DType {
	for d, e := range elementTypes {
		if e == element && e != onnxruntime.TensorElementDataTypeUndefined {
			return tensor.DType(d)
		}
	}
	return tensor.Invalid
}
