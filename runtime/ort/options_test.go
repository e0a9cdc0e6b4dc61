package ort_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestCUDAOptions(t *testing.T) {
	plain := map[string]string{
		"device_id": "0", "arena_extend_strategy": "kNextPowerOfTwo", "cudnn_conv_algo_search": "HEURISTIC",
		"do_copy_in_default_stream": "1", "use_tf32": "0", "enable_cuda_graph": "0",
	}
	if diff := cmp.Diff(plain, (&ort.Options{}).CUDAOptions()); diff != "" {
		t.Errorf("defaults (-want +got)\n%s", diff)
	}
	o := ort.Options{
		DeviceID: 3, DeviceMemory: 2 << 30, ArenaExtend: ort.ArenaExact, TF32: true, ConvSearch: ort.SearchExhaustive, CUDAGraphs: true,
	}
	all := map[string]string{
		"device_id": "3", "arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "EXHAUSTIVE",
		"do_copy_in_default_stream": "1", "use_tf32": "1", "enable_cuda_graph": "1", "gpu_mem_limit": "2147483648",
	}
	if diff := cmp.Diff(all, o.CUDAOptions()); diff != "" {
		t.Errorf("all (-want +got)\n%s", diff)
	}
}

// The arena of a session on the CPU is read as that of one on a GPU is.
func TestMemory(t *testing.T) {
	s := openGraph(t, neg())
	before, err := s.Memory()
	if err != nil {
		t.Fatal(err)
	}
	b := batchOf(t, s, sample(tensor.Float32, tensor.Shape{1 << 18, 2}))
	if err := s.Run(b); err != nil {
		t.Fatal(err)
	}
	after, err := s.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if after.Reserved < before.Reserved || after.Reserved < after.InUse || after.Peak < after.InUse {
		t.Errorf("memory went from %+v to %+v", before, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Memory(); err == nil {
		t.Error("a closed session has memory")
	}
}
