package ort

/*
#include <stdlib.h>
#include "cudart.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// device keeps calls apart that may not happen at once on CUDA devices. While a graph is being captured, calls of other
// threads that allocate, copy or wait fail, and spoil the capture (cudaStreamCaptureModeGlobal, which ONNX Runtime
// uses).
var device struct {
	// opening is entered while a session opens or closes, or memory is page-locked, and shut by a capture.
	opening gate
	// running is entered by runs, and shut by a capture after opening.
	running gate
}

// cudaRuntime is the CUDA runtime library, once it was found under one of the names.
var cudaRuntime = struct {
	mu    sync.Mutex
	names []string
	c     *C.weft_cuda
}{names: []string{"libcudart.so.13", "libcudart.so.12"}}

// loadCUDA returns the CUDA runtime: the one that ONNX Runtime's provider has loaded, else one that the system has.
func loadCUDA() (*C.weft_cuda, error) {
	if c := presentCUDA(); c != nil {
		return c, nil
	}
	return findCUDA(false)
}

// presentCUDA returns the CUDA runtime that this process has loaded; nil: none.
func presentCUDA() *C.weft_cuda {
	c, _ := findCUDA(true)
	return c
}

func findCUDA(present bool) (*C.weft_cuda, error) {
	cudaRuntime.mu.Lock()
	defer cudaRuntime.mu.Unlock()
	if cudaRuntime.c != nil {
		return cudaRuntime.c, nil
	}
	runtime.LockOSThread() // the words of a fault are the thread's
	defer runtime.UnlockOSThread()
	c := (*C.weft_cuda)(C.calloc(1, C.size_t(unsafe.Sizeof(C.weft_cuda{}))))
	var faults []string
	for _, name := range cudaRuntime.names {
		cName := C.CString(name)
		fault := C.weft_cuda_open(c, cName, C.bool(present))
		C.free(unsafe.Pointer(cName))
		if fault == nil {
			cudaRuntime.c = c
			return c, nil
		}
		faults = append(faults, name+": "+C.GoString(fault))
	}
	C.free(unsafe.Pointer(c))
	return nil, fmt.Errorf("the CUDA runtime library cannot be used: %s", strings.Join(faults, "; "))
}
