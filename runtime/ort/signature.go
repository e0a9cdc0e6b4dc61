package ort

/*
#include "capi.h"
*/
import "C"

import (
	"fmt"
	"slices"
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
// with a note; an input that cannot be fed, or no output at all, is an error.
func readSignature(api *C.weft_api, session *C.OrtSession) (*tensor.Signature, error) {
	var inputs, outputs C.size_t
	if err := take(api, C.weft_count(api, session, &inputs, &outputs)); err != nil {
		return nil, err
	}
	sig := &tensor.Signature{}
	for i := range int(inputs) {
		d, err := describe(api, session, false, i)
		if err != nil {
			return nil, err
		}
		if d.fault == "" && !d.ranked {
			d.fault = "declares no shape, so requests cannot be checked; export the model with the shape of each " +
				"input " +
				"(dimensions may be dynamic)"
		}
		if d.fault != "" {
			return nil, fmt.Errorf("input %q %s", d.spec.Name, d.fault)
		}
		sig.Inputs = append(sig.Inputs, d.spec)
	}
	for i := range int(outputs) {
		d, err := describe(api, session, true, i)
		if err != nil {
			return nil, err
		}
		switch {
		case sig.Output(d.spec.Name) >= 0:
			// ONNX Runtime writes into one of the places that it is given for a name, and not into the others.
			sig.Notes = append(sig.Notes, fmt.Sprintf("output %q is listed more than once: it is answered once",
				d.spec.Name))
			continue
		case d.fault != "":
			sig.Notes = append(sig.Notes, fmt.Sprintf("output %q is left out: it %s", d.spec.Name, d.fault))
			continue
		}
		if !d.ranked {
			sig.Notes = append(sig.Notes,
				fmt.Sprintf("output %q declares no shape: its rank is known after a run only", d.spec.Name))
		}
		sig.Outputs = append(sig.Outputs, d.spec)
	}
	if len(sig.Outputs) == 0 {
		return nil, fmt.Errorf("the model has no output that is a tensor: %q", sig.Notes)
	}
	return sig, nil
}

func describe(api *C.weft_api, session *C.OrtSession, output bool, index int) (described, error) {
	c := new(C.weft_spec)
	defer C.weft_spec_free(api, c)
	if err := take(api, C.weft_describe(api, session, C.bool(output), C.size_t(index), c)); err != nil {
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
