package ort

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The texts are those of ONNX Runtime 1.29 and 1.30, and the binding's before them.
func TestExplain(t *testing.T) {
	const parse = "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:62 static " +
		"onnxruntime::CUDAExecutionProviderInfo " +
		"onnxruntime::CUDAExecutionProviderInfo::FromProviderOptions(const onnxruntime::ProviderOptions&) " +
		"[ONNXRuntimeError] : 1 : FAIL : " +
		`provider_options_utils.h:187 Parse Failed to parse provider option "device_id": `
	const load = "/onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:1988 onnxruntime::Provider& " +
		"onnxruntime::ProviderLibrary::Get() " +
		"[ONNXRuntimeError] : 1 : FAIL : Failed to load library /opt/ort/libonnxruntime_providers_cuda.so with error: "
	const other = "name an ONNX Runtime library that was built for it with --onnxruntime-lib or " +
		"WEFT_ONNXRUNTIME_LIB; " +
		"docs/install/gpu.md tells where to get one for NVIDIA's GPUs"
	tensorRT := strings.Replace(load, "_cuda.so", "_tensorrt.so", 1)
	for text, want := range map[string]string{
		load + "/opt/ort/libonnxruntime_providers_cuda.so: cannot open shared object file: No such file or directory": "/opt/ort/libonnxruntime_providers_cuda.so is missing: " +
			"install the execution providers of the same ONNX Runtime release beside its library, or " + other,
		load + "libcublasLt.so.13: cannot open shared object file: No such file or directory": "/opt/ort/libonnxruntime_providers_cuda.so needs libcublasLt.so.13, which is not found: " +
			"it needs NVIDIA's CUDA libraries of the release that it was built for where the system looks, such as a " +
			"folder in LD_LIBRARY_PATH; " +
			"docs/install/gpu.md tells which, and where to get them",
		load + "libcuda.so.1: cannot open shared object file: No such file or directory": "/opt/ort/libonnxruntime_providers_cuda.so needs libcuda.so.1, which is not found: " +
			"it comes with NVIDIA's driver; install that, or have it passed into the container (--gpus all)",
		tensorRT + "libnvinfer.so.10: cannot open shared object file: No such file or directory": "/opt/ort/libonnxruntime_providers_tensorrt.so needs libnvinfer.so.10, which is not found: " +
			"it needs NVIDIA's TensorRT and CUDA libraries of the releases that it was built for where the system " +
			"looks, such as a folder in LD_LIBRARY_PATH; " +
			"docs/install/gpu.md tells of them",
		load + "/opt/ort/libonnxruntime_providers_cuda.so: undefined symbol: Provider_GetHost": "/opt/ort/libonnxruntime_providers_cuda.so cannot be loaded: " +
			"undefined symbol: Provider_GetHost; it must be of the same release as the ONNX Runtime library, and the " +
			"libraries that it needs of the releases that it was built for",
		parse + "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=vm ; " +
			"file=/onnxruntime_src/x.cc ; line=69 ; " +
			"expr=cudaGetDeviceCount(&num_devices);": "no CUDA device can be used: no CUDA-capable device is " +
			"detected " +
			"(CUDA error 100); nvidia-smi should list one",
		parse + "Invalid device ID: 7, must be between 0 (inclusive) and 1 (exclusive).": "Invalid device ID: 7, must " +
			"be between 0 (inclusive) and 1 (exclusive).",
		"CUDA execution provider is not enabled in this build.": "CUDA execution provider is not enabled in this " +
			"build: " + other,
		"model.cc:202 Unsupported model IR version: 99, max supported IR version: 13": "it has IR version 99, and this " +
			"ONNX Runtime reads up to 13: set the model's ir_version to that and save it again, or name a newer ONNX " +
			"Runtime with --onnxruntime-lib",
		"model_load_utils.h:46 ONNX Runtime only *guarantees* support for models stamped with official released onnx opset " +
			"versions. Opset 99 is under development and support for this is limited. Current official support for domain " +
			"ai.onnx is till opset 26.": "it uses opset 99 of ai.onnx, and this ONNX Runtime has up to 26: export it with " +
			"that opset_version or a lower one, or name a newer ONNX Runtime with --onnxruntime-lib",
		"Unrecognized attribute: noop_with_empty_axes for operator ReduceMean": "Unrecognized attribute: " +
			"noop_with_empty_axes for operator ReduceMean (the operators are of a later opset than the model names, as " +
			"PyTorch's exporter writes them for an opset_version below 18: export without opset_version)",
		"something else": "something else",
	} {
		inner := errors.New(text)
		if got := explain(fmt.Errorf("error creating session: %w", inner)).Error(); got != want {
			t.Errorf("%q is explained as\n%q, want\n%q", text, got, want)
		}
	}
}
