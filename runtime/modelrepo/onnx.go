package modelrepo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
)

// ONNX says how ONNX Runtime runs a model.
type ONNX struct {
	// Providers (cpu, cuda, tensorrt, openvino, coreml; default [cpu]) are the execution providers in the order in which
	// they are tried. With [cuda, cpu], a server without CUDA whose devices include cpu runs the model there and logs a
	// warning. tensorrt leaves nodes that it does not support to CUDA. openvino and coreml choose their device themselves
	// and are scheduled as the CPU.
	Providers []Provider `yaml:"providers,flow" enum:"cpu,cuda,tensorrt,openvino,coreml"`
	// IntraOpThreads (1 to 256, or auto; default 1) is the number of CPU threads of one execution. With auto it is one
	// for each 32 MiB of weights, at most as many as the CPU runs batches (cpu:N). More threads shorten a large model's
	// execution, take CPUs from other models, and make costs harder to predict.
	IntraOpThreads Threads `yaml:"intra_op_threads"`
	// Device is the CUDA device that the model runs on, such as cuda:1; the server's devices must include it. By default
	// the server chooses.
	Device string `yaml:"device,omitempty"`
	// DeviceMemoryLimit (at least 1MiB, or 0; default 0) bounds the CUDA device memory that the model takes for weights,
	// activations and work space; 0 disables the bound. The memory of CUDA and its libraries is not included, and
	// tensorrt ignores it. Too low fails batches that would fit.
	DeviceMemoryLimit config.Size `yaml:"device_memory_limit"`
	// ArenaExtendStrategy (default same_as_requested) is how the model's memory on a CUDA device grows.
	// `same_as_requested`: by the requested amount. `next_power_of_two`: doubled each step, which calls the driver less
	// often and wastes more memory.
	ArenaExtendStrategy ArenaStrategy `yaml:"arena_extend_strategy" enum:"same_as_requested,next_power_of_two"`
	// TF32 (default false) lets a CUDA device round the factors of fp32 products to 10 bits. It is faster, and answers
	// differ in the fourth digit.
	TF32 bool `yaml:"tf32"`
	// ConvAlgoSearch (default heuristic) is how a CUDA device's algorithm is chosen for each convolution. `heuristic`:
	// guesses at once. `exhaustive`: tries all, which stops the device at each new shape. `default`: always the same
	// algorithm.
	ConvAlgoSearch ConvSearch `yaml:"conv_algo_search" enum:"heuristic,exhaustive,default"`
	// PinBuffers and CUDAGraphs (default false) are experimental. PinBuffers page-locks batch buffers for CUDA devices.
	// CUDAGraphs captures a CUDA graph for each of batching.allowed_batch_sizes, which it needs unless batching.mode is
	// off, and replays it.
	PinBuffers bool `yaml:"pin_buffers"`
	CUDAGraphs bool `yaml:"cuda_graphs"`
}

// Provider is an ONNX Runtime execution provider: cpu, cuda, tensorrt, openvino or coreml.
type Provider string

// The providers.
const (
	CPU      Provider = "cpu"
	CUDA     Provider = "cuda"
	TensorRT Provider = "tensorrt"
	OpenVINO Provider = "openvino"
	CoreML   Provider = "coreml"
)

// OnCUDA reports whether the provider computes on a CUDA device.
func (p Provider) OnCUDA() bool { return p == CUDA || p == TensorRT }

// ArenaStrategy is how memory on a CUDA device grows.
type ArenaStrategy string

// ConvSearch is how algorithms for convolutions are chosen.
type ConvSearch string

func defaultONNX() ONNX {
	return ONNX{
		Providers: []Provider{CPU}, IntraOpThreads: 1,
		ArenaExtendStrategy: "same_as_requested", ConvAlgoSearch: "heuristic",
	}
}

// maxDeviceMemory is more than any device has.
const maxDeviceMemory = 1 << 40

func (o *ONNX) check(faults *config.Faults, b *Batching) {
	if o.DeviceMemoryLimit != 0 {
		// Below, no model could be loaded; above, no device has so much, and it is a mistake.
		config.Between(faults, "onnx.device_memory_limit", o.DeviceMemoryLimit, config.MiB, maxDeviceMemory)
	}
	if len(o.Providers) == 0 {
		faults.Addf("onnx.providers", "the list is empty; expected such as [cpu] or [cuda, cpu]")
	}
	for i, p := range o.Providers {
		if slices.Contains(o.Providers[:i], p) {
			faults.Addf(fmt.Sprintf("onnx.providers[%d]", i), "%s is listed twice; expected each provider once", p)
		}
	}
	if o.Device != "" && !isCUDADevice(o.Device) {
		faults.Addf("onnx.device", "%q; expected such as cuda:0, which needs cuda or tensorrt in onnx.providers",
			o.Device)
	}
	o.checkForCUDA(faults)
	switch {
	case !o.CUDAGraphs:
	case !slices.Contains(o.Providers, CUDA):
		faults.Addf("onnx.cuda_graphs", "true needs the provider cuda; add it to onnx.providers or remove the key")
	case len(b.AllowedBatchSizes) == 0 && b.Mode != BatchOff:
		faults.Addf("onnx.cuda_graphs",
			"true needs batching.allowed_batch_sizes, such as [1, 2, 4, 8], since each size has a graph of its own; "+
				"list them or remove the key")
	}
}

// checkForCUDA finds settings that no provider heeds.
func (o *ONNX) checkForCUDA(faults *config.Faults) {
	if len(o.Providers) == 0 || slices.ContainsFunc(o.Providers, Provider.OnCUDA) {
		return
	}
	d := defaultONNX()
	for _, s := range []struct {
		key string
		set bool
	}{
		{"device", isCUDADevice(o.Device)}, // else that fault is reported already
		{"device_memory_limit", o.DeviceMemoryLimit != 0},
		{"arena_extend_strategy", o.ArenaExtendStrategy != d.ArenaExtendStrategy},
		{"tf32", o.TF32},
		{"conv_algo_search", o.ConvAlgoSearch != d.ConvAlgoSearch},
		{"pin_buffers", o.PinBuffers},
	} {
		if s.set {
			faults.Addf("onnx."+s.key,
				"this is of CUDA devices, and onnx.providers has neither cuda nor tensorrt; add one or remove the key")
		}
	}
}

func isCUDADevice(name string) bool {
	number, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.ParseUint(number, 10, 16)
	return ok && err == nil && strconv.FormatUint(n, 10) == number
}
