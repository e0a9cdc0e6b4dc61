package ort_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
)

// The texts are ones that users of ONNX Runtime, and of the libraries of this package, have met.
func TestErrorKinds(t *testing.T) {
	const lost, memory, terminated, none = engine.DeviceLost, engine.OutOfMemory, engine.Terminated, engine.ModelFailed
	for message, want := range map[string]engine.Kind{
		"CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=h ; file=f": lost,
		"CUDA failure 719: unspecified launch failure ; GPU=0":                                     lost,
		"CUDA failure 2: out of memory ; GPU=0":                                                    memory,
		"CUDA failure 1: invalid argument ; GPU=0":                                                 none,
		"Failed to allocate memory for requested buffer of size 4503599627370496":                  memory,
		"OutputMLValue(int, const TensorShape&) [ONNXRuntimeError] : 1 : FAIL : Calculation for Tensor storage size " +
			"overflowed": memory,
		"Non-zero status code returned while running Conv node. BFCArena::AllocateRawInternal Available memory of " +
			"19968 is smaller than requested bytes of 1572864": memory,
		"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; hostname=h":                  memory,
		"CUDNN failure 4002: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ; GPU=0":   memory,
		"CUDA error 2: out of memory (cudaMalloc)":                                           memory,
		"CUDA error 719: unspecified launch failure (cudaStreamSynchronize)":                 lost,
		"CUDA error 900: operation not permitted when stream is capturing (cudaMemcpyAsync)": none,
		// A call of CUDA that fails, a kernel, and an exception while a session is made.
		"CUDA failure 719: unspecified launch failure ; GPU=0 ; hostname=h ; file=gpu_data_transfer.cc ; line=73 ; " +
			"expr=cudaMemcpyAsync(dst_data, src_data, bytes, cudaMemcpyDeviceToHost, stream);": lost,
		"Non-zero status code returned while running Gemm node. Name:'gemm' Status Message: " +
			"CUDA error cudaErrorIllegalAddress:an illegal memory access was encountered": lost,
		"CUDA error cudaErrorLaunchFailure:unspecified launch failure":                                    lost,
		"CUDA error cudaErrorContained:Invalid access of peer GPU memory over nvlink or a hardware error": lost,
		"CUDA failure 226: Invalid access of peer GPU memory over nvlink or a hardware error ; GPU=3":     lost,
		"CUDA failure 721: tensor memory not completely freed ; GPU=0":                                    lost,
		"cuda_call.cc:121 onnxruntime::CudaCall(ERRTYPE) [with ERRTYPE = cudaError; bool THRW = true] " +
			"CUDA failure 802: system not yet initialized ; GPU=0 ; hostname=a77781ce481c ; " +
			"file=cuda_execution_provider.cc ; line=245 ; expr=cudaSetDevice(info_.device_id);": lost,
		"CUDA error cudaErrorMemoryAllocation:out of memory": memory,
		"Non-zero status code returned while running Slice node. Name:'Slice_34' Status Message: CUDA error " +
			"cudaErrorNoKernelImageForDevice:no kernel image is available for execution on the device": none,
		"Non-zero status code returned while running GatherND node. Name:'GatherNd_28' Status Message: CUDA error " +
			"cudaErrorInvalidConfiguration:invalid configuration argument": none,
		"Failed to initialize CUDNN Frontend; CUDNN_FE failure 11: CUDNN_BACKEND_API_FAILED ; GPU=0": none,
		"Exiting due to terminate flag being set to true.":                                           terminated,
		"indices element out of data bounds, idx=700 must be within the inclusive range [-3,2]":      none,
	} {
		if got := ort.KindOf(&ort.Error{Message: message}); got != want {
			t.Errorf("%q: kind %d, want %d", message, got, want)
		}
	}
}

// A failure of a library may have any cause: what the CUDA runtime says decides.
func TestAmbiguousErrors(t *testing.T) {
	const lost, memory, terminated, none = engine.DeviceLost, engine.OutOfMemory, engine.Terminated, engine.ModelFailed
	texts := map[string]engine.Kind{ // on a device that is lost; on a sound one, lost is none
		"CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED ; GPU=0 ; hostname=h ; file=gemm.cc ; line=121": lost,
		"CUBLAS failure 14: CUBLAS_STATUS_INTERNAL_ERROR ; GPU=0":                                          lost,
		"CUBLAS failure 1: CUBLAS_STATUS_NOT_INITIALIZED ; GPU=0 ; expr=cublasCreate(&cublas_handle_);":    lost,
		"CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED ; GPU=0 ; file=conv.cc ; line=493":              lost,
		"CUDNN failure 1001: CUDNN_STATUS_NOT_INITIALIZED ; GPU=0 ; file=conv.cc ; line=467":               lost,
		"CUDNN failure 3: CUDNN_STATUS_BAD_PARAM ; GPU=0 ; expr=cudnnAddTensor(handle)":                    lost,
		"CUDNN_FE failure 11: CUDNN_BACKEND_API_FAILED ; GPU=0 ; hostname=acer ; file=conv.cc ; line=483":  lost,
		"TensorRT EP execution context enqueue failed.":                                                    lost,
		"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0":                                             memory,
		"Exiting due to terminate flag being set to true.":                                                 terminated,
	}
	for code, kinds := range map[string]map[engine.Kind]engine.Kind{
		"0": {lost: none}, "700": {}, "226": {}, "999": {},
		"2":   {lost: none}, // no memory for the question
		"100": {lost: none}, // no device for this process: there was none to lose
	} {
		t.Run(code, func(t *testing.T) {
			useFakeCUDA(t)
			if _, err := ort.NewPinner(0, nil); err != nil { // has the process load it
				t.Fatal(err)
			}
			t.Setenv("FAKE_CUDA_FAIL", "cudaMemGetInfo="+code)
			for text, want := range texts {
				if instead, is := kinds[want]; is {
					want = instead
				}
				for _, device := range []int{0, 3} {
					err := ort.AskDevice(device, ort.Typed(&ort.Error{Message: text}))
					if got := engine.KindOf(err); got != want || !strings.Contains(err.Error(), text) {
						t.Errorf("%q on device %d: %v of kind %d, want %d", text, device, err, got, want)
					}
				}
				err := errors.New(text) // the binding's errors have no type
				if ort.NoteLost(t, 0, ort.AskDevice(0, err)); (ort.LostBy(0) != nil) != (want == lost) {
					t.Errorf("%q as text: lost by %v, want kind %d", text, ort.LostBy(0), want)
				}
			}
		})
	}
}

// Where no CUDA runtime is loaded there is none to ask, and none is loaded for that.
func TestAmbiguousErrorWithoutCUDA(t *testing.T) {
	calls := useFakeCUDA(t)
	err := errors.New("CUBLAS failure 14: CUBLAS_STATUS_INTERNAL_ERROR")
	if got := ort.AskDevice(0, err); !errors.Is(got, err) || calls.count(t, "cuda") != 0 {
		t.Errorf("%v after %d calls", got, calls.count(t, "cuda"))
	}
}
