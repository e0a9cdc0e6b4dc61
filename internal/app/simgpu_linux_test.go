package app

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/ort/simgpu"
)

// TestALostGPUComesBack: a GPU that is lost in a kernel is out of use; models on the processor are served on. Another
// process has it back, and the model is there again.
func TestALostGPUComesBack(t *testing.T) {
	gpu, err := simgpu.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir()
	weighted(t, repository, "on_cpu", 10, 20, 30, 40)
	weighted(t, repository, "on_gpu", 10, 20, 30, 40)
	weftest.SetManifest(t, repository, "on_gpu",
		"onnx: {providers: [cuda], cuda_graphs: true}\nbatching: {max_batch_size: 2, allowed_batch_sizes: [1, 2]}\n")
	r := serveFrom(t, repository, func(a *App) {
		a.Isolation, a.ONNXRuntimeLib, a.Devices = config.IsolateDevice, gpu.Library, []string{"cpu", "cuda:0"}
	})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	ask := func(model string) error {
		a, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request(model, 1))
		if got := a.GetOutputs()["y"].GetFloatValues(); err == nil && !slices.Equal(got, []float32{11, 22, 33, 44}) {
			t.Errorf("%s answers %v", model, got)
		}
		return err
	}
	for _, model := range []string{"on_cpu", "on_gpu"} {
		if err := ask(model); err != nil {
			t.Fatal(err)
		}
	}
	if gpu.Made(simgpu.Kernel) == 0 {
		t.Fatal("nothing ran on the GPU")
	}
	gpu.Fail(simgpu.Kernel, 0, 700)
	err = ask("on_gpu")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "CUDA failure 700") {
		t.Errorf("on the GPU that is lost: %v", err)
	}
	if err := ask("on_cpu"); err != nil {
		t.Errorf("on the processor: %v", err)
	}
	weftest.Until(t, "the model is on the GPU again", func() bool { return ask("on_gpu") == nil })
	if lost := r.metric(t, `weft_device_lost\{device="cuda:0"\}`); lost != "0" {
		t.Errorf("when it is back, weft_device_lost is %q", lost)
	}
}
