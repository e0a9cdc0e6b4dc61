package ort

/*
#include "cudart.h"

static const char *weft_cuda_text(const weft_cuda *cuda, int code) { return cuda->cudaGetErrorString(code); }
*/
import "C"

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"

	"github.com/weftserve/weft/runtime/engine"
)

// cudaFailure finds an error of CUDA in a text, by its number or its name. ONNX Runtime writes "CUDA failure 700: ..."
// for a call that fails and "CUDA error cudaErrorIllegalAddress:..." for a kernel; "CUDA error 700" is this package's.
var cudaFailure = regexp.MustCompile(`CUDA (?:failure|error):? (?:(\d+)|(cudaError[A-Za-z]+))`)

// cudaCode returns the first error of CUDA that the text knows; 0: none.
func (e *Error) cudaCode() int {
	m := cudaFailure.FindStringSubmatch(e.Message)
	if m == nil {
		return 0
	}
	if code, err := strconv.Atoi(m[1]); err == nil {
		return code
	}
	return cudaNames[m[2]]
}

const (
	cudaOutOfMemory = 2
	cudaNoKernel    = 209 // the library has no code for this GPU
)

// cudaNames are the names of the errors of CUDA that matter here.
var cudaNames = map[string]int{
	"cudaErrorMemoryAllocation":       cudaOutOfMemory,
	"cudaErrorDevicesUnavailable":     46,
	"cudaErrorNoDevice":               100,
	"cudaErrorInvalidDevice":          101,
	"cudaErrorNoKernelImageForDevice": cudaNoKernel,
	"cudaErrorECCUncorrectable":       214,
	"cudaErrorNvlinkUncorrectable":    220,
	"cudaErrorContained":              226,
	"cudaErrorIllegalAddress":         700,
	"cudaErrorLaunchTimeout":          702,
	"cudaErrorContextIsDestroyed":     709,
	"cudaErrorAssert":                 710,
	"cudaErrorHardwareStackError":     714,
	"cudaErrorIllegalInstruction":     715,
	"cudaErrorMisalignedAddress":      716,
	"cudaErrorInvalidAddressSpace":    717,
	"cudaErrorInvalidPc":              718,
	"cudaErrorLaunchFailure":          719,
	"cudaErrorTensorMemoryLeak":       721,
	"cudaErrorSystemNotReady":         802,
	"cudaErrorUnknown":                999,
}

// deviceLost are the values of cudaError_t (driver_types.h of the CUDA toolkit) after which the process can use the
// device no more.
var deviceLost = map[int]bool{
	46:  true, // devices unavailable
	100: true, // no device
	101: true, // invalid device
	214: true, // uncorrectable ECC error
	220: true, // uncorrectable NVLink error
	226: true, // a fault that the GPU has contained
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
	721: true, // tensor memory leak
	802: true, // system not yet initialized: NVIDIA's fabric manager, which connects the GPUs, does not run
	999: true, // unknown
}

// notThere are those of deviceLost that are no loss when a model is opened: there is no GPU for this process, or
// another one has it.
var notThere = map[int]bool{46: true, 100: true, 101: true}

// cudaText returns the CUDA runtime's text for an error.
func cudaText(cuda *C.weft_cuda, code C.int) string {
	return fmt.Sprintf("CUDA error %d: %s", code, C.GoString(C.weft_cuda_text(cuda, code)))
}

// askDevice returns an error that came from a device, with the CUDA runtime's word for it if the device is lost. The
// text of an error may leave that open: a failure of cuBLAS or cuDNN can be a wrong argument or a fault of any kernel
// before it, and TensorRT says only that it failed. On a lost device, every call of the CUDA runtime fails. A device of
// -1 is none.
func askDevice(device int, err error) error {
	if err == nil || device < 0 || kindOfText(err) != engine.ModelFailed {
		return err
	}
	cuda := presentCUDA()
	if cuda == nil {
		return err
	}
	runtime.LockOSThread() // the CUDA runtime keeps errors, and the chosen device, with the thread
	defer runtime.UnlockOSThread()
	code := C.weft_cuda_state(cuda, C.int(device))
	if !deviceLost[int(code)] || notThere[int(code)] {
		return err
	}
	return &engine.Error{
		Kind: engine.DeviceLost, Err: fmt.Errorf("%w; the device is lost: %s", err, cudaText(cuda, code)),
	}
}
