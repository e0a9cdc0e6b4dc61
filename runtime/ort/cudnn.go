package ort

/*
#include <dlfcn.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// cudnnNames are the names by which ONNX Runtime looks for cuDNN, without which it runs on since 1.30
// (https://github.com/microsoft/onnxruntime/pull/29252).
var cudnnNames = []string{"libcudnn.so.9", "libcudnn.so"}

// cudnnOperators are the operators that the CUDA provider computes by cuDNN alone: the ones that ONNX Runtime's
// description of running without it lists (plugin-ep-cuda), and the recurrent ones. Others, such as reductions, use it
// for some shapes, which show when the model is warmed up.
var cudnnOperators = []string{
	"AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Einsum", "FusedConv", "GRU", "GlobalAveragePool",
	"GlobalMaxPool", "InstanceNormalization", "LRN", "LSTM", "MaxPool", "RNN",
}

// checkCuDNN returns an error if the operators of a model on a GPU need cuDNN and the system does not find it: ONNX
// Runtime looks for it when the first of them is run, and fails then.
func checkCuDNN(p placement) error {
	var need []string
	for _, op := range cudnnOperators {
		if p.cuda[op] > 0 {
			need = append(need, op)
		}
	}
	if need == nil {
		return nil
	}
	runtime.LockOSThread() // the words of a fault are the thread's
	defer runtime.UnlockOSThread()
	var faults []string
	for _, name := range cudnnNames {
		cName := C.CString(name)
		handle := C.dlopen(cName, C.RTLD_LAZY) // for good: ONNX Runtime is about to do the same
		C.free(unsafe.Pointer(cName))
		if handle != nil {
			return nil
		}
		faults = append(faults, C.GoString(C.dlerror()))
	}
	return fmt.Errorf("the model needs NVIDIA's cuDNN for %s, and it is not found (%s): it must lie where the system "+
		"looks, such as a folder in LD_LIBRARY_PATH; docs/install/gpu.md tells where to get it", strings.Join(need, ", "),
		strings.Join(faults, "; "))
}
