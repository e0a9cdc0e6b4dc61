package modelrepo

import (
	"regexp"
	"strings"
)

// without says of fields of Triton's that set nothing here what Weft does instead, and what to set. One that is not in
// it has the sentence of the message around it: once for all that is in that message or, with ".*", for each; one that
// is in none has the last sentence.
var without = map[string]string{
	"cc_model_filenames": "Weft serves the same file on every GPU",
	"metric_tags":        "Weft's metrics have its own labels: model, version and slot; add others where they are scraped",
	"input.format":       "the order of channels is the model's, and the client's to know",
	"input.allow_ragged_batch": "" +
		"Weft joins no rows of different shapes: name the input in batching.variable_dims, and it is padded to common " +
		"lengths",
	"dynamic_batching.preferred_batch_size": "" +
		"a batch grows while the device is busy, and needs no preferred size: set batching.allowed_batch_sizes only " +
		"if the engine is prepared for some sizes",
	"dynamic_batching.preserve_ordering": "" +
		"each call has its own answer, and batches are formed in the order of targets: nothing to set",
	"dynamic_batching.default_queue_policy.timeout_action": "" +
		"without a timeout it does nothing, in Triton too; Weft's max_latency is 10s, and 0s disables it",
	"dynamic_batching.default_queue_policy.allow_timeout_override": "" +
		"a limit of the request's own always counts, also if it is later than max_latency: nothing to set",
	"dynamic_batching.priority_queue_policy": "" +
		"one queue policy holds for all levels, in order of targets; background requests (level 4) are bounded apart: " +
		"set batching.max_queue and max_latency for all",
	"instance_group.*": "it has no meaning where one session serves all batches of a device",
	"instance_group.count": "" +
		"one session serves all batches of a device, as many at a time as the device has lanes: set --devices cpu:N " +
		"for another number on the processor, or replicas for more GPUs",
	"instance_group.name":         "it names nothing here: there are no instances",
	"instance_group.gpus":         "the group is not on GPUs: set onnx.providers and onnx.device to have it there",
	"instance_group.rate_limiter": "device time is shared by weight, and needs no resources: set weight",
	"instance_group.host_policy": "" +
		"batches run on any processor of the machine; start the server with taskset or numactl to have it otherwise",
	"optimization.*":        "Weft leaves it to ONNX Runtime",
	"optimization.priority": "device time is shared by weight: set weight",
	"optimization.graph": "" +
		"graphs are optimized as far as ONNX Runtime can: export an optimized model to have it otherwise",
	"optimization.cuda.graphs": "" +
		"CUDA graphs need the provider cuda, and batching: set onnx.providers, onnx.cuda_graphs and " +
		"batching.allowed_batch_sizes",
	"optimization.cuda.graph_spec": "" +
		"CUDA graphs are captured for batch sizes, whatever the other dimensions: set onnx.cuda_graphs and " +
		"batching.allowed_batch_sizes",
	"optimization.execution_accelerators.*": "" +
		"Weft has the providers cuda, tensorrt, openvino and coreml, with the options that docs/install/gpu.md lists: set " +
		"onnx.providers, and leave the others to ONNX Runtime",
	"optimization.input_pinned_memory": "" +
		"it is of CUDA devices, and the model asks for none: set onnx.providers and onnx.pin_buffers",
	"optimization.output_pinned_memory": "" +
		"it is of CUDA devices, and the model asks for none: set onnx.providers and onnx.pin_buffers",
	"parameters":               "Weft has no such option of ONNX Runtime; onnx in model.yaml lists those that there are",
	"model_operations":         "who starts the server names libraries of operators, and no model does: set --ort-ops",
	"model_transaction_policy": "each request has one answer",
	"model_repository_agents": "" +
		"Weft reads model files as they are; weft seal and SHA256SUMS protect them against changes",
	"response_cache": "Weft caches no answers: put a cache before the server if equal requests are frequent",
	"runtime":        "Weft has one ONNX Runtime: set --onnxruntime-lib for another",
	"model_metrics":  "the buckets of Weft's histograms are fixed",
	"":               "Weft has no such setting, and passes it over",
}

var index = regexp.MustCompile(`\[\d+\]`)

// meaningless returns the field that a path is of, or the message around it that there is something to say about, and
// what there is to say.
func meaningless(path string) (of, why string) {
	for of = path; of != ""; of = parentOf(of) {
		name := index.ReplaceAllString(of, "")
		if strings.HasPrefix(name, "parameters[") {
			return strings.TrimSuffix(of, ".string_value"), without["parameters"]
		}
		if why := without[name]; why != "" {
			return of, why
		}
		if why := without[name+".*"]; why != "" {
			return path, why
		}
	}
	return path, without[""]
}
