package ort

/*
#include "capi.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weftserve/weft/runtime/engine"
)

// Error is a failure that ONNX Runtime reported.
type Error struct {
	// Code is ONNX Runtime's OrtErrorCode, such as 2 for an invalid argument and 6 for an exception.
	Code int
	// Message is ONNX Runtime's own text.
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("ONNX Runtime: %s (code %d)", e.Message, e.Code) }

// kind returns the kind of the error. ONNX Runtime has no code of its own for any kind, so the text decides.
func (e *Error) kind() engine.Kind {
	code := e.cudaCode()
	says := func(words string) bool { return strings.Contains(e.Message, words) }
	switch {
	case deviceLost[code]:
		return engine.DeviceLost
	case code == cudaOutOfMemory, code == 0 && slices.ContainsFunc(outOfMemory, says):
		return engine.OutOfMemory
	case says("terminate flag"):
		return engine.Terminated
	}
	return engine.ModelFailed
}

// kindOfText returns the kind of an error that the Go binding, or the CUDA runtime, made of a text.
func kindOfText(err error) engine.Kind { return (&Error{Message: err.Error()}).kind() }

// typed returns the error with its kind.
func (e *Error) typed() error {
	if kind := e.kind(); kind != engine.ModelFailed {
		return &engine.Error{Kind: kind, Err: e}
	}
	return e
}

// overLimit is of an arena that has reached its limit.
const overLimit = "smaller than requested bytes"

// outOfMemory is how an arena, the system, and NVIDIA's libraries say it.
var outOfMemory = []string{
	"Failed to allocate memory", "Tensor storage size overflowed", overLimit, "out of memory", "std::bad_alloc",
	"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "CUFFT_ALLOC_FAILED",
}

// shapeMismatch reports whether the memory that was offered for an output may have had another shape than the output.
// Release 1.24 says so in this text; 1.30 in another and as an invalid argument, which can have other causes too.
func (e *Error) shapeMismatch() bool {
	return e.Code == invalidArgument || strings.Contains(e.Message, "shape verification failed")
}

const invalidArgument = 2

// blameDevice returns an error that came of opening a model with the kind that blames its device as that is now: it
// is lost, or has no memory, and on another one the model may be opened. It returns nil if there is nothing to blame.
// Errors of the Go binding are text, so the text decides. A limit that is too low is the same on each device.
func blameDevice(provider string, err error) *engine.Error {
	if err == nil || !onCUDA(provider) {
		return nil
	}
	e := &Error{Message: err.Error()}
	switch kind := e.kind(); {
	case notThere[e.cudaCode()]:
	case kind == engine.DeviceLost, kind == engine.OutOfMemory && !strings.Contains(e.Message, overLimit):
		return &engine.Error{Kind: kind, Err: err}
	}
	return nil
}

// take turns a status into an *Error, with its kind, and releases it. A nil status is success.
func take(api *C.weft_api, status *C.OrtStatus) error {
	if status == nil {
		return nil
	}
	var message [4096]C.char
	code := C.weft_status(api, status, &message[0], C.size_t(len(message)))
	return (&Error{Code: int(code), Message: strings.TrimSpace(C.GoString(&message[0]))}).typed()
}

// lost are the CUDA devices that an error has reported as lost, by ONNX Runtime's number, each with that error. A
// process never gets back what it holds on such a device, so they stay here. One session's error counts for all: a
// fault in one kernel ends them.
var lost = struct {
	mu     sync.Mutex
	causes map[int]error
}{causes: map[int]error{}}

// LoseDevice notes that a CUDA device is lost, by ONNX Runtime's number. Sessions that run there say so themselves;
// this is for a caller that learns of it in another way.
func LoseDevice(device int, cause error) {
	lost.mu.Lock()
	defer lost.mu.Unlock()
	if lost.causes[device] == nil {
		lost.causes[device] = cause
	}
}

// noteLost looks whether an error that came from a device says that it is lost. Errors of the Go binding are text, so
// the text decides.
func noteLost(device int, err error) {
	if err != nil && kindOfText(err) == engine.DeviceLost {
		LoseDevice(device, err)
	}
}

// lostBy returns the error that said that a device is lost; nil: none has.
func lostBy(device int) error {
	lost.mu.Lock()
	defer lost.mu.Unlock()
	return lost.causes[device]
}
