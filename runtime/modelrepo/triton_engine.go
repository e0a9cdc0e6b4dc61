package modelrepo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
)

// instances maps where the model runs. Weft has one session on each device, which serves all of its lanes: there is no
// number of instances.
func (t *tritonConfig) instances() {
	const key = "onnx.providers"
	var gpus []int32
	groups := t.c.GetInstanceGroup()
	// KIND_AUTO is a GPU where there is one.
	onGPU := slices.ContainsFunc(groups, func(g *inference.ModelInstanceGroup) bool {
		return g.GetKind() == inference.ModelInstanceGroup_KIND_GPU || g.GetKind() == inference.ModelInstanceGroup_KIND_AUTO
	})
	for i, g := range groups {
		at := fmt.Sprintf("instance_group[%d]", i)
		t.told[at] = slices.Contains(t.leaves, at) // {}
		t.told[at+".count"] = g.GetCount() == 1
		switch kind := g.GetKind(); {
		case kind == inference.ModelInstanceGroup_KIND_CPU && onGPU:
			t.note(at+".kind", "the model has instances on GPUs, too: Weft takes the processor only where no GPU has room")
		case kind == inference.ModelInstanceGroup_KIND_CPU:
			t.onCPU = true
			t.m.ONNX.Providers = []Provider{CPU}
			t.sets(key, at+".kind")
		case kind == inference.ModelInstanceGroup_KIND_MODEL:
			t.note(at+".kind", "Weft places models itself, without onnx.providers in %s on the processor", ManifestName)
		default:
			if kind == inference.ModelInstanceGroup_KIND_GPU && len(g.GetGpus()) == 0 {
				t.note(at+".kind", "Triton has instances on every GPU then; Weft has the model on one: set replicas in %s to have "+
					"it on more", ManifestName)
			}
			t.m.ONNX.Providers = []Provider{CUDA, CPU}
			t.sets(key, at+".kind")
			gpus = append(gpus, g.GetGpus()...)
			t.gpus(at+".gpus", g.GetGpus())
		}
	}
	slices.Sort(gpus)
	switch gpus = slices.Compact(gpus); len(gpus) {
	case 0:
	case 1:
		t.m.ONNX.Device = fmt.Sprintf("cuda:%d", gpus[0])
	default:
		t.m.Replicas = Replicas(min(len(gpus), maxReplicas))
	}
}

// gpus tells what becomes of the numbers of GPUs.
func (t *tritonConfig) gpus(path string, gpus []int32) {
	switch {
	case len(gpus) == 0:
		return
	case slices.Min(gpus) < 0:
		t.fault(path, "GPU %d; expected numbers from 0 on", slices.Min(gpus))
	case len(gpus) > 1:
		t.note(path, "the model gets as many replicas; Weft chooses their devices among --devices")
	}
	t.sets("onnx.device", path)
	t.sets("replicas", path)
}

// optimization maps what ONNX Runtime is asked for.
func (t *tritonConfig) optimization() {
	o := t.c.GetOptimization()
	for i, a := range o.GetExecutionAccelerators().GetGpuExecutionAccelerator() {
		if t.onCPU { // the file says so: an accelerator of GPUs is left over
			break
		}
		at := fmt.Sprintf("optimization.execution_accelerators.gpu_execution_accelerator[%d]", i)
		switch a.GetName() {
		case "tensorrt":
			t.m.ONNX.Providers = []Provider{TensorRT, CUDA, CPU}
			t.sets("onnx.providers", at+".name")
		case "cuda":
			t.m.ONNX.Providers = []Provider{CUDA, CPU}
			t.sets("onnx.providers", at+".name")
			for _, key := range sortedKeys(a.GetParameters()) {
				t.cuda(at+".parameters["+key+"]", key, a.GetParameters()[key])
			}
		}
	}
	for i, a := range o.GetExecutionAccelerators().GetCpuExecutionAccelerator() {
		if a.GetName() == "openvino" && !t.onCUDA() {
			t.m.ONNX.Providers = []Provider{OpenVINO, CPU}
			t.sets("onnx.providers",
				fmt.Sprintf("optimization.execution_accelerators.cpu_execution_accelerator[%d].name", i))
		}
	}
	t.graphs(o.GetCuda().GetGraphs())
	t.pin("optimization.input_pinned_memory", o.GetInputPinnedMemory())
	t.pin("optimization.output_pinned_memory", o.GetOutputPinnedMemory())
}

// pin maps one of the kinds of buffers, which Weft pins together.
func (t *tritonConfig) pin(path string, b *inference.ModelOptimizationPolicy_PinnedMemoryBuffer) {
	if !b.GetEnable() {
		t.told[path] = true // as it is without
	} else if t.onCUDA() {
		t.m.ONNX.PinBuffers = true
		t.sets("onnx.pin_buffers", path)
	}
}

func (t *tritonConfig) onCUDA() bool { return slices.ContainsFunc(t.m.ONNX.Providers, Provider.OnCUDA) }

// graphs maps CUDA graphs: there is one for each size of a batch.
func (t *tritonConfig) graphs(wanted bool) {
	const path = "optimization.cuda.graphs"
	if !wanted || !slices.Contains(t.m.ONNX.Providers, CUDA) || t.m.Batching.Mode == BatchOff {
		return
	}
	t.m.ONNX.CUDAGraphs = true
	t.sets("onnx.cuda_graphs", path)
	t.m.Batching.AllowedBatchSizes = t.graphSizes()
	t.set["batching.allowed_batch_sizes"] = path
	t.note(path, "batches have the sizes that graphs are captured for, batching.allowed_batch_sizes: set that in %s to "+
		"have others", ManifestName)
}

// parameters maps those of the ONNX Runtime backend.
func (t *tritonConfig) parameters() {
	for _, key := range sortedKeys(t.c.GetParameters()) {
		path, value := "parameters["+key+"]", t.c.GetParameters()[key].GetStringValue()
		if key != "intra_op_thread_count" {
			t.cuda(path, key, value)
			continue
		}
		switch n, err := strconv.Atoi(value); {
		case err != nil || n < 0:
			t.fault(path, "expected a number of threads, found %q", value)
		case n == 0:
			t.note(path, "0 is all processors to Triton; Weft has one thread for each batch, and a batch for each "+
				"processor: set onnx.intra_op_threads: auto in %s to have more for large models", ManifestName)
		default:
			t.m.ONNX.IntraOpThreads = Threads(t.most(path, uint64(n), maxThreads))
			t.sets("onnx.intra_op_threads", path)
		}
	}
}

// cuda maps an option of CUDA devices, if it is one that Weft has too, and the model runs there.
func (t *tritonConfig) cuda(path, option, value string) {
	o := &t.m.ONNX
	if !t.onCUDA() {
		return
	}
	switch key := strings.ToLower(value); option {
	case "cudnn_conv_algo_search":
		search, ok := map[string]ConvSearch{
			"0": "exhaustive", "exhaustive": "exhaustive", "1": "heuristic", "heuristic": "heuristic",
			"2": "default", "default": "default",
		}[key]
		if !ok {
			t.fault(path, "expected 0 (exhaustive), 1 (heuristic) or 2 (default), found %q", value)
			return
		}
		o.ConvAlgoSearch = search
		t.sets("onnx.conv_algo_search", path)
	case "gpu_mem_limit":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.fault(path, "expected a number of bytes, found %q", value)
			return
		}
		if n <= maxDeviceMemory { // the largest number is how ONNX Runtime says that there is no limit
			o.DeviceMemoryLimit = config.Size(n)
		}
		t.sets("onnx.device_memory_limit", path)
	case "arena_extend_strategy":
		strategy, ok := map[string]ArenaStrategy{
			"0": "next_power_of_two", "knextpoweroftwo": "next_power_of_two",
			"1": "same_as_requested", "ksameasrequested": "same_as_requested",
		}[key]
		if !ok {
			t.fault(path, "expected 0 (kNextPowerOfTwo) or 1 (kSameAsRequested), found %q", value)
			return
		}
		o.ArenaExtendStrategy = strategy
		t.sets("onnx.arena_extend_strategy", path)
	case "use_tf32":
		o.TF32 = key == "1" || key == "true"
		t.sets("onnx.tf32", path)
	}
}
