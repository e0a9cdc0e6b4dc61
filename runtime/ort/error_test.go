package ort_test

import (
	"testing"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
)

func TestErrorKinds(t *testing.T) {
	const lost, memory, terminated, none = engine.DeviceLost, engine.OutOfMemory, engine.Terminated, engine.ModelFailed
	for message, want := range map[string]engine.Kind{
		"CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=h ; file=f": lost,
		"CUDA failure 719: unspecified launch failure ; GPU=0":                                     lost,
		"CUDA failure 2: out of memory ; GPU=0":                                                    memory,
		"CUDA failure 1: invalid argument ; GPU=0":                                                 none,
		"Failed to allocate memory for requested buffer of size 4503599627370496":                  memory,
		"Non-zero status code returned while running Conv node. BFCArena::AllocateRawInternal Available memory of " +
			"19968 is smaller than requested bytes of 1572864": memory,
		"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; hostname=h":                     memory,
		"CUDNN failure 4002: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ; GPU=0":      memory,
		"CUDA error 2: out of memory (cudaMalloc)":                                              memory,
		"CUDA error 719: unspecified launch failure (cudaStreamSynchronize)":                    lost,
		"CUDA error 900: operation not permitted when stream is capturing (cudaMemcpyAsync)":    none,
		"CUBLAS failure 14: CUBLAS_STATUS_INTERNAL_ERROR ; GPU=0":                               none,
		"Exiting due to terminate flag being set to true.":                                      terminated,
		"indices element out of data bounds, idx=700 must be within the inclusive range [-3,2]": none,
	} {
		if got := ort.KindOf(&ort.Error{Message: message}); got != want {
			t.Errorf("%q: kind %d, want %d", message, got, want)
		}
	}
}
