package simgpu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/ort/simgpu"
)

// gpu is that of this process, and of the processes in which tests lose it.
var gpu *simgpu.GPU

// alone is set in a process that runs one test.
const alone = "WEFT_SIMGPU_ALONE"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if os.Getenv(alone) != "" {
		gpu, err = simgpu.Open(os.Getenv(ortlib.EnvVar))
	} else {
		var folder string
		if folder, err = os.MkdirTemp("", "weft-simgpu-*"); err == nil {
			defer os.RemoveAll(folder)
			gpu, err = simgpu.New(context.Background(), folder)
		}
	}
	if err == nil {
		err = ort.Init(gpu.Library)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// inAProcess reports whether the test, whose name has no spaces, is in a process of its own. If not, it runs it in one
// and returns its output and its end.
func inAProcess(t *testing.T) (is bool, output string, err error) {
	t.Helper()
	if os.Getenv(alone) == t.Name() {
		return true, "", nil
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v",
		"-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), alone+"="+t.Name(), ortlib.EnvVar+"="+gpu.Library,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, err := cmd.CombinedOutput()
	return false, string(out), err
}
