package ort_test

import (
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestCUDAOptions(t *testing.T) {
	plain := map[string]string{
		"device_id": "0", "arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "HEURISTIC",
		"do_copy_in_default_stream": "1", "use_tf32": "0", "enable_cuda_graph": "0",
	}
	same(t, plain, (&ort.Options{}).CUDAOptions(), "defaults")
	o := ort.Options{
		DeviceID: 3, DeviceMemory: 2 << 30, ArenaExtend: ort.ArenaDoubling, TF32: true, ConvSearch: ort.SearchExhaustive,
		CUDAGraphs: true,
	}
	all := map[string]string{
		"device_id": "3", "arena_extend_strategy": "kNextPowerOfTwo", "cudnn_conv_algo_search": "EXHAUSTIVE",
		"do_copy_in_default_stream": "1", "use_tf32": "1", "enable_cuda_graph": "1", "gpu_mem_limit": "2147483648",
	}
	same(t, all, o.CUDAOptions(), "all")
}

// The arena of a session on the CPU is read as that of one on a GPU is.
func TestDeviceMemory(t *testing.T) {
	ort.FollowRuns(t, time.Hour)
	s := openGraph(t, glutton())
	before, _, err := s.DeviceMemory()
	if err != nil {
		t.Fatal(err)
	}
	const numbers = 1 << 20
	runOnce(t, s, int64s(tensor.Shape{1}, numbers))
	peak, reserved, err := s.DeviceMemory()
	if err != nil {
		t.Fatal(err)
	}
	if peak < before+4*numbers || reserved < peak {
		t.Errorf("%d bytes at most, %d held, %d at most before; the run took %d", peak, reserved, before, 4*numbers)
	}
	// The memory that it holds is followed while it runs, now and then.
	if got := s.Stats().Memory.Held; got != reserved {
		t.Errorf("%d bytes held, want %d", got, reserved)
	}
	runOnce(t, s, int64s(tensor.Shape{1}, 4*numbers))
	if got := s.Stats().Memory.Held; got != reserved {
		t.Errorf("%d bytes held: looked at again at once", got)
	}
	ort.FollowRuns(t, 0)
	runOnce(t, s, int64s(tensor.Shape{1}, 1))
	grown := s.Stats().Memory.Held
	if grown < 4*4*numbers {
		t.Errorf("%d bytes held after a run that took %d", grown, 4*4*numbers)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.DeviceMemory(); err == nil {
		t.Error("a closed session has memory")
	}
	if got := s.Stats().Memory.Held; got != grown {
		t.Errorf("closed, it is said to hold %d bytes, want what was seen last, %d", got, grown)
	}
}
