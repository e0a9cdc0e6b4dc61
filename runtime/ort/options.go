package ort

import (
	"log/slog"
	"strconv"
)

// Options say how a model is to be executed.
type Options struct {
	// Providers are tried in this order; the first that can be had executes the model. Empty: CPU. Operators that it
	// lacks run on the CPU.
	Providers []string
	// IntraOpThreads is how many threads share one operator. 0: one, which leaves the processors to other batches.
	IntraOpThreads int
	// DeviceID is the CUDA device, of the providers that have one.
	DeviceID int
	// DeviceMemory limits the bytes that the model's arena takes of its CUDA device: weights, activations and work
	// space, but not the memory that CUDA and its libraries take for themselves. 0: no limit.
	DeviceMemory int64
	// ArenaExtend is how the arena grows; empty: ArenaExact.
	ArenaExtend string
	// TF32 lets CUDA round the factors of fp32 products to 10 bits.
	TF32 bool
	// ConvSearch is how cuDNN's algorithm for a convolution is chosen, for each new shape; empty: SearchHeuristic.
	ConvSearch string
	// PinBuffers page-locks batch buffers through Session.Memory.
	PinBuffers bool
	// Operators are the files of libraries of custom operators, as absolute paths, which the model may use.
	Operators []string
	// CUDAGraphs replays a captured CUDA graph for shapes that come again. A model that does not allow it runs without,
	// with a note.
	CUDAGraphs bool
	// Log gets later errors that fail no run. nil: they are not logged.
	Log *slog.Logger `json:"-"`
}

// How an arena grows, for Options.ArenaExtend.
const (
	ArenaDoubling = "next_power_of_two" // each extension twice the one before: few calls of the driver
	ArenaExact    = "same_as_requested" // no more than is needed
)

// How convolutions are chosen, for Options.ConvSearch.
const (
	SearchHeuristic  = "heuristic"  // cuDNN's own guess, at once
	SearchExhaustive = "exhaustive" // by trying all, which stops the device for as long at each new shape
	SearchDefault    = "default"    // always the same
)

// ONNX Runtime's names for them.
var (
	arenaStrategies = map[string]string{
		"": "kSameAsRequested", ArenaExact: "kSameAsRequested",
		ArenaDoubling: "kNextPowerOfTwo",
	}
	convSearches = map[string]string{
		"": "HEURISTIC", SearchHeuristic: "HEURISTIC", SearchExhaustive: "EXHAUSTIVE",
		SearchDefault: "DEFAULT",
	}
)

// cuda returns the provider options for CUDA. Copies stay in the stream of their run, which has one of its own for as
// long as it lasts: runs of two sessions overlap, and no other way is free of races.
func (o *Options) cuda() map[string]string {
	options := map[string]string{
		"device_id":                 strconv.Itoa(o.DeviceID),
		"arena_extend_strategy":     arenaStrategies[o.ArenaExtend],
		"cudnn_conv_algo_search":    convSearches[o.ConvSearch],
		"do_copy_in_default_stream": "1",
		"use_tf32":                  digit(o.TF32),
		"enable_cuda_graph":         digit(o.CUDAGraphs),
	}
	if o.DeviceMemory > 0 {
		options["gpu_mem_limit"] = strconv.FormatInt(o.DeviceMemory, 10)
	}
	return options
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
