package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"errors"
	"reflect"
	"slices"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/tensor"
)

// native is a session of ONNX Runtime: the binding's part of it, and the part that our C layer needs.
type native struct {
	binding  *onnxruntime.DynamicAdvancedSession
	provider string
	c        *C.weft_session
	// Of the session's thread:
	captures int   // CUDA graphs that it has captured, or begun to
	stuck    error // CUDA would not give memory of a graph back
}

// newNative takes the binding over. The signature names the values of a run.
func newNative(api *C.weft_api, binding *onnxruntime.DynamicAdvancedSession, provider string,
	sig *tensor.Signature,
) (*native, error) {
	session, err := address(binding)
	if err != nil {
		return nil, err
	}
	c := C.weft_session_new(api, session, C.size_t(sig.MostInputs()), C.size_t(len(sig.Outputs)))
	if c == nil {
		return nil, errors.New("out of memory")
	}
	names := unsafe.Slice(c.names, sig.MostInputs()+len(sig.Outputs))
	for i, spec := range slices.Concat(sig.Inputs, sig.Optional, sig.Outputs) {
		names[i] = C.CString(spec.Name)
	}
	return &native{binding: binding, provider: provider, c: c}, nil
}

// close unloads the model. No run may be under way or follow.
func (n *native) close() error {
	C.weft_session_free(n.c)
	return destroy(n.binding, n.provider)
}

func destroy(binding *onnxruntime.DynamicAdvancedSession, provider string) error {
	if onCUDA(provider) {
		device.opening.enter()
		defer device.opening.leave()
	}
	return binding.Destroy()
}

// address returns the session's address, which the binding keeps to itself; the package comment says why we need it.
func address(binding *onnxruntime.DynamicAdvancedSession) (*C.OrtSession, error) {
	field := reflect.ValueOf(binding).Elem().FieldByName("s")
	if field.Kind() == reflect.Pointer && field.Elem().Kind() == reflect.Struct {
		field = field.Elem().FieldByName("ortSession")
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			return (*C.OrtSession)(field.UnsafePointer()), nil
		}
	}
	return nil, errors.New("this version of github.com/yalue/onnxruntime_go keeps its session elsewhere; build with " +
		"the version that go.mod names")
}
