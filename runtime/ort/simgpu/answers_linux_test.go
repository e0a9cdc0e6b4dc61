package simgpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/ort/simgpu"
	"github.com/weftserve/weft/runtime/tensor"
)

const width = 6

// randomModel is a chain of operators, each on the results of earlier ones.
func randomModel(rng *rand.Rand, ops []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "opset 17; x[N,%d];", width)
	names := []string{"x"}
	pick := func() string { return names[rng.IntN(len(names))] }
	for i := range 3 + rng.IntN(8) {
		op, name := ops[rng.IntN(len(ops))], fmt.Sprintf("v%d", i)
		last := names[len(names)-1]
		args := map[string]string{
			"MatMul": fmt.Sprintf("%s, <%d,%d>", last, width, width),
			"Gemm":   fmt.Sprintf("%s, <%d,%d>, <%d>", last, width, width, width),
			"Mul":    fmt.Sprintf("%s, <1,%d>", last, width),
			"Add":    last + ", " + pick(),
			"Sub":    pick() + ", " + last,
		}[op]
		if args == "" {
			args = last
		}
		fmt.Fprintf(&text, " %s = %s(%s);", name, op, args)
		names = append(names, name)
	}
	return text.String() + " " + names[len(names)-1]
}

// write makes a model file.
func write(t *testing.T, text string) string {
	t.Helper()
	model, err := sketch.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", model.Graph.Marshal())
	return path
}

func open(t *testing.T, text string, o ort.Options) *ort.Session {
	t.Helper()
	s, err := ort.Open(write(t, text), o)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

var (
	onCPU  = ort.Options{}
	onGPU  = ort.Options{Providers: []string{ort.CUDA}}
	graphs = ort.Options{Providers: []string{ort.CUDA}, CUDAGraphs: true}
)

func closing(t *testing.T, s *ort.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func rows(rng *rand.Rand, n int64) tensor.Tensor {
	values := make([]float32, n*width)
	for i := range values {
		values[i] = rng.Float32()*4 - 2
	}
	return weftest.Floats(tensor.Shape{n, width}, values...)
}

// answer runs a batch of one input.
func answer(t *testing.T, s *ort.Session, in tensor.Tensor) ([]float32, error) {
	t.Helper()
	b := tensor.NewBatch(1, 1, nil)
	defer b.Free()
	copy(b.Input(0, in.DType, in.Shape, len(in.Data)), in.Data)
	if err := s.Run(t.Context(), b); err != nil {
		return nil, err
	}
	return weftest.Values(b.Outputs[0]), nil
}

func agrees(t *testing.T, text string, s, cpu *ort.Session, in tensor.Tensor) {
	t.Helper()
	want, err := answer(t, cpu, in)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got, err := answer(t, s, in)
	near := func(a, b float32) bool {
		return a == b || math.Abs(float64(a-b)) <= 1e-4*max(1, math.Abs(float64(b)))
	}
	if err != nil || !slices.EqualFunc(got, want, near) {
		t.Errorf("%s: %v, %v; want %v", text, got, err, want)
	}
}

// Random models give the processor's answers on the device: with and without graphs, also where some of their operators
// are left to the processor, however late the device is. All its memory is given back.
func TestAnswers(t *testing.T) {
	defer gpu.Delay(0)
	ops := []string{"Relu", "Tanh", "Sigmoid", "Neg", "Elu", "Softplus", "Add", "Sub", "Mul", "MatMul", "Gemm"}
	before := gpu.Reserved()
	captured := uint64(0)
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 0))
		kinds := ops
		if seed%4 == 3 {
			kinds = append(slices.Clone(ops), "Abs", "Floor")
		}
		text := randomModel(rng, kinds)
		gpu.Delay(time.Duration(seed%3) * 50 * time.Microsecond)
		cpu, eager, replaying := open(t, text, onCPU), open(t, text, onGPU), open(t, text, graphs)
		for range 5 {
			for _, n := range []int64{1, 3, 1 + rng.Int64N(20)} {
				in := rows(rng, n)
				agrees(t, text, eager, cpu, in)
				agrees(t, text, replaying, cpu, in)
			}
		}
		g := replaying.Stats().Graphs
		whole := !strings.Contains(text, "Abs") && !strings.Contains(text, "Floor")
		if whole && (g.Replayed == 0 || g.Failures > 0 || len(replaying.Notes()) > 0) || !whole && g.Replayed > 0 {
			t.Errorf("%s: %+v, notes %q", text, g, replaying.Notes())
		}
		captured += g.Replayed
		for _, s := range []*ort.Session{cpu, eager, replaying} {
			closing(t, s)
		}
	}
	if left := gpu.Reserved() - before; left != 0 {
		t.Errorf("%d bytes of the device are not given back", left)
	}
	if gpu.Made(simgpu.Kernel) == 0 || gpu.Made(simgpu.Replay) < int64(captured) {
		t.Errorf("%d kernels, %d replays of at least %d", gpu.Made(simgpu.Kernel), gpu.Made(simgpu.Replay), captured)
	}
}
