package ort_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/ort/simgpu"
)

// Tests for machines with a GPU hold on a simulated one, as far as they do not ask for more than it has. They are run
// in another process: a process loads one library.
func TestOnASimulatedGPU(t *testing.T) {
	gpu, err := simgpu.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := []string{
		"TestCUDAGraphs", "TestCUDAPinnedBuffers", "TestCUDANodesOnCPU",
		"TestCUDAWithoutCuDNN",
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+strings.Join(tests, "|")+")$")
	cmd.Env = append(os.Environ(), ortlib.EnvVar+"="+gpu.Library, "WEFT_TEST_CUDA=1", "WEFT_TEST_CUDA_DEVICE=0")
	out, err := cmd.CombinedOutput()
	for _, test := range tests {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+test+" ") {
			t.Fatalf("%s: %v\n%s", test, err, out)
		}
	}
}
