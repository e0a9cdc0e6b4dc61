package ort

/*
#include "capi.h"
#include "cudart.h"

static const char *weft_cuda_text(const weft_cuda *cuda, int code) { return cuda->cudaGetErrorString(code); }
*/
import "C"

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	code, isCUDA := e.cudaCode()
	says := func(words string) bool { return strings.Contains(e.Message, words) }
	switch {
	case isCUDA && deviceLost[code]:
		return engine.DeviceLost
	case isCUDA && code == cudaOutOfMemory, !isCUDA && slices.ContainsFunc(outOfMemory, says):
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
	"Failed to allocate memory", overLimit, "out of memory", "std::bad_alloc",
	"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "DEVICE_ALLOCATION_FAILED", "CUFFT_ALLOC_FAILED",
}

// shapeMismatch reports whether the memory that was offered for an output may have had another shape than the output.
// Release 1.24 says so in this text; 1.30 in another and as an invalid argument, which can have other causes too.
func (e *Error) shapeMismatch() bool {
	return e.Code == invalidArgument || strings.Contains(e.Message, "shape verification failed")
}

const invalidArgument = 2

// "failure" is ONNX Runtime's word, "error" this package's.
var cudaFailure = regexp.MustCompile(`CUDA (?:failure|error) (\d+)`)

func (e *Error) cudaCode() (int, bool) {
	m := cudaFailure.FindStringSubmatch(e.Message)
	if m == nil {
		return 0, false
	}
	code, err := strconv.Atoi(m[1])
	return code, err == nil
}

const cudaOutOfMemory = 2

// deviceLost are the values of cudaError_t (driver_types.h of the CUDA toolkit) after which the process can use the
// device no more.
var deviceLost = map[int]bool{
	46:  true, // devices unavailable
	100: true, // no device
	101: true, // invalid device
	214: true, // uncorrectable ECC error
	220: true, // uncorrectable NVLink error
	700: true, // illegal address
	702: true, // launch timeout
	709: true, // context is destroyed
	710: true, // assertion in a kernel
	714: true, // hardware stack error
	715: true, // illegal instruction
	716: true, // misaligned address
	717: true, // invalid address space
	718: true, // invalid program counter
	719: true, // launch failure
	999: true, // unknown
}

// notThere are those of deviceLost that are no loss when a model is opened: there is no GPU for this process, or
// another one has it.
var notThere = map[int]bool{46: true, 100: true, 101: true}

// blameDevice returns an error that came of opening a model with the kind that blames its device as that is now: it
// is lost, or has no memory, and on another one the model may be opened. It returns nil if there is nothing to blame.
// Errors of the Go binding are text, so the text decides. A limit that is too low is the same on each device.
func blameDevice(provider string, err error) *engine.Error {
	if err == nil || !onCUDA(provider) {
		return nil
	}
	e := &Error{Message: err.Error()}
	code, isCUDA := e.cudaCode()
	switch kind := e.kind(); {
	case isCUDA && notThere[code]:
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

// cudaText returns the CUDA runtime's text for an error.
func cudaText(cuda *C.weft_cuda, code C.int) string {
	return fmt.Sprintf("CUDA error %d: %s", code, C.GoString(C.weft_cuda_text(cuda, code)))
}
