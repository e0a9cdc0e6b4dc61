package ort_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// gpu is where the tests of CUDA run.
type gpu struct {
	options ort.Options
	// real: there is a GPU. Not so in a rehearsal, which only shows that the tests themselves hold.
	real bool
}

// useGPU skips the test unless WEFT_TEST_CUDA is 1, or cpu for a rehearsal on the CPU. WEFT_TEST_CUDA_DEVICE is the
// device, 0 unless set.
func useGPU(t testing.TB) gpu {
	t.Helper()
	switch os.Getenv("WEFT_TEST_CUDA") {
	case "1":
		device, _ := strconv.Atoi(os.Getenv("WEFT_TEST_CUDA_DEVICE"))
		return gpu{ort.Options{Providers: []string{ort.CUDA}, DeviceID: device}, true}
	case "cpu":
		if t, is := t.(*testing.T); is {
			useFakeCUDA(t)
			ort.CaptureOnCPU(t)
		}
		return gpu{ort.Options{Providers: []string{ort.CPU}}, false}
	}
	t.Skip("WEFT_TEST_CUDA is not 1: a GPU is needed, and a library with the CUDA provider in WEFT_ONNXRUNTIME_LIB")
	return gpu{}
}

// open opens a model file there, changed by set.
func (g gpu) open(t testing.TB, path string, set func(*ort.Options)) *ort.Session {
	t.Helper()
	o := g.options
	if set != nil {
		set(&o)
	}
	return openWith(t, path, o)
}

func (g gpu) openGraph(t testing.TB, model []byte, set func(*ort.Options)) *ort.Session {
	t.Helper()
	return g.open(t, weftest.WriteFile(t, t.TempDir(), "model.onnx", model), set)
}

func withGraphs(o *ort.Options) { o.CUDAGraphs = true }

// asOnCPU compares answers, by tolerances that CUDA has to keep with TF32 off.
func asOnCPU(t *testing.T, what string, sig *tensor.Signature, got, want []tensor.Tensor) {
	t.Helper()
	for i, w := range want {
		tolerance := map[tensor.DType]float64{tensor.Float16: 5e-3, tensor.Float32: 1e-3}[w.DType]
		if d, err := compare.Relative(got[i], w, nil, 0); err != nil || d > tolerance {
			t.Errorf("%s: output %q deviates by %g of the largest magnitude, want at most %g", what,
				sig.Outputs[i].Name, d, tolerance)
		}
	}
}

// Each model gives the same answers on CUDA as on the CPU, with CUDA graphs where it allows them, and when asked again.
func TestCUDAReferenceModels(t *testing.T) {
	g := useGPU(t)
	eachReference(t, func(t *testing.T, path string, cpu *ort.Session, refs references) {
		eager, graphs := g.open(t, path, nil), g.open(t, path, withGraphs)
		t.Logf("notes: %q", graphs.Notes())
		sig := cpu.Signature()
		for range 3 {
			for _, c := range refs.Cases {
				inputs := make([]tensor.Tensor, len(sig.Inputs))
				for _, r := range c.Inputs {
					inputs[sig.Input(r.Name)] = r.tensor()
				}
				want := runOnce(t, cpu, inputs...)
				asOnCPU(t, "eager", sig, runOnce(t, eager, inputs...), want)
				asOnCPU(t, "with graphs", sig, runOnce(t, graphs, inputs...), want)
			}
		}
		t.Logf("graphs: %+v", graphs.Stats().Graphs)
	})
}

// A policy on CUDA replays its graphs, and gives the same answers as without.
func TestCUDAGraphs(t *testing.T) {
	g := useGPU(t)
	model := onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 1, "Elu", "Tanh")
	var log bytes.Buffer
	eager := g.openGraph(t, model, nil)
	graphs := g.openGraph(t, model, func(o *ort.Options) {
		o.CUDAGraphs, o.Log = true, slog.New(slog.NewTextHandler(&log, nil))
	})
	if notes := graphs.Notes(); len(notes) != 0 {
		t.Fatalf("notes %q", notes)
	}
	sig := eager.Signature()
	for k := range 20 {
		for _, rows := range []int64{1, 8, 64} {
			in := sample(tensor.Float32, tensor.Shape{rows, 48})
			for i := range rows * 48 {
				copy(in.Data[4*i:], floats(nil, float32(k+1)/float32(i+1)).Data)
			}
			asOnCPU(t, "with graphs", sig, runOnce(t, graphs, in), runOnce(t, eager, in))
		}
	}
	if got := graphs.Stats().Graphs; got.Replayed != 3*17 || got.Eager != 3*3 || got.Failures != 0 {
		t.Errorf("%+v; want 51 replayed, 9 eager, 0 failures\n%s", got, &log)
	}
}

// Captures disturb nobody: not the runs of another session, nor its opening and closing.
func TestCUDACaptureBesideOthers(t *testing.T) {
	g := useGPU(t)
	model := onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 1, "Elu", "Tanh")
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", model)
	other := g.openGraph(t, model, nil)
	graphs := g.openGraph(t, model, withGraphs)
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		b := batchOf(t, other, sample(tensor.Float32, tensor.Shape{5, 48}))
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := other.Run(t.Context(), b); err != nil {
					t.Errorf("a run beside a capture: %v", err)
					return
				}
			}
		})
	}
	opened := make(chan struct{})
	others.Go(func() {
		defer close(opened)
		for range 5 {
			s, err := ort.Open(path, g.options)
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Errorf("opening beside a capture: %v", err)
				return
			}
		}
	})
	// A capture gives way to the opening of a session, so there are rounds after the last one.
	for k, after := 0, 0; after < 10; k++ {
		for rows := int64(1); rows <= 8; rows++ {
			in := sample(tensor.Float32, tensor.Shape{rows, 48})
			in.Data[3] = byte(k)
			runOnce(t, graphs, in)
		}
		select {
		case <-opened:
			after++
		default:
		}
	}
	close(stop)
	others.Wait()
	if got := graphs.Stats().Graphs; got.Replayed == 0 || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
}

// glutton makes a tensor of as many numbers as its input says, and answers their sum.
func glutton() []byte {
	g := onnxgraph.New("glutton").Input("n", onnxgraph.Int64, 1).Output("sum", onnxgraph.Float)
	g.InitFloats("one", nil, 1).Node("Expand", []string{"one", "n"},
		[]string{"ones"}).Node("Softplus", []string{"ones"}, []string{"many"})
	g.Node("ReduceSum", []string{"many"}, []string{"sum"}, onnxgraph.IntAttr("keepdims", 0))
	return g.Marshal()
}

// A run that is out of memory says so, beyond the device as beyond the limit, and the session goes on.
func TestCUDAOutOfMemory(t *testing.T) {
	g := useGPU(t)
	const limit = 256 << 20
	for name, c := range map[string]struct {
		limit, floats int64
	}{"device": {0, 1 << 44}, "limit": {limit, 1 << 28}} {
		t.Run(name, func(t *testing.T) {
			if !g.real && c.limit > 0 {
				t.Skip("the CPU has no limit")
			}
			s := g.openGraph(t, glutton(),
				func(o *ort.Options) { o.DeviceMemory, o.ArenaExtend = c.limit, ort.ArenaExact })
			runOnce(t, s, int64s(tensor.Shape{1}, 1000))
			for range 3 {
				err := s.Run(t.Context(), batchOf(t, s, int64s(tensor.Shape{1}, c.floats)))
				if engine.KindOf(err) != engine.OutOfMemory {
					t.Errorf("%d numbers: got %v, want out of memory", c.floats, err)
				}
				runOnce(t, s, int64s(tensor.Shape{1}, 1000))
			}
			peak, reserved, err := s.DeviceMemory()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("memory: at most %d bytes, %d now", peak, reserved)
			if c.limit > 0 && reserved > c.limit {
				t.Errorf("the arena holds %d bytes, the limit is %d", reserved, c.limit)
			}
		})
	}
}

// Buffers are page-locked when that is asked for, and the answers are the same.
func TestCUDAPinnedBuffers(t *testing.T) {
	g := useGPU(t)
	s := g.openGraph(t, neg(), func(o *ort.Options) { o.PinBuffers = true })
	if (s.Memory() != nil) != g.real || len(s.Notes()) != 0 {
		t.Fatalf("memory %v, notes %q", s.Memory(), s.Notes())
	}
	if (s.Pin() != nil) != g.real {
		t.Error("memory of others is not page-locked")
	}
	b := tensor.NewBatch(1, 1, s.Memory())
	defer b.Free()
	for _, rows := range []int64{1, 1 << 16, 3} {
		in := make([]float32, 2*rows)
		for i := range in {
			in[i] = float32(i)
		}
		fill(b, floats(tensor.Shape{rows, 2}, in...))
		if err := s.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := weftest.Values(b.Outputs[0]); got[2*rows-1] != -float32(2*rows-1) {
			t.Errorf("%d rows: the last number is %g", rows, got[2*rows-1])
		}
	}
}

// Operators that CUDA lacks run on the CPU, and a note says so.
func TestCUDANodesOnCPU(t *testing.T) {
	g := useGPU(t)
	if !g.real {
		t.Skip("all of the CPU's nodes are on the CPU")
	}
	graph := onnxgraph.New("part").Input("x", onnxgraph.Float, 2, 2).Output("y", onnxgraph.Float, 2, 2)
	graph.Node("Neg", []string{"x"}, []string{"n"}).Node("Det", []string{"n"}, []string{"d"})
	s := g.openGraph(t, graph.Node("Add", []string{"n", "d"}, []string{"y"}).Marshal(), nil)
	if notes := s.Notes(); len(notes) != 1 || notes[0] != "1 of 3 nodes run on the CPU: Det" {
		t.Errorf("notes %q", notes)
	}
	out := runOnce(t, s, floats(tensor.Shape{2, 2}, 2, 0, 0, 4))
	if got := weftest.Values(out[0]); got[0] != 6 || got[1] != 8 || got[3] != 4 {
		t.Errorf("answer %v", got)
	}
}

// A model that needs cuDNN where that is missing goes to the next provider, and a note says why.
func TestCUDAWithoutCuDNN(t *testing.T) {
	g := useGPU(t)
	if !g.real {
		t.Skip("the CPU needs no cuDNN")
	}
	ort.UseCuDNN(t, "/nowhere/libcudnn.so.9")
	ort.NeedCuDNN(t, "Neg")
	s := g.openGraph(t, neg(), func(o *ort.Options) { o.Providers = []string{ort.CUDA, ort.CPU} })
	notes := strings.Join(s.Notes(), "\n")
	if s.Provider() != ort.CPU || !strings.Contains(notes, "/nowhere/libcudnn.so.9") ||
		!strings.HasSuffix(notes, "; using cpu") {
		t.Errorf("on %s, notes %q", s.Provider(), notes)
	}
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", neg())
	_, err := ort.Open(path, g.options)
	contains(t, err, "the model needs NVIDIA's cuDNN for Neg")
	if engine.KindOf(err) != engine.ModelFailed {
		t.Errorf("kind %d", engine.KindOf(err))
	}
}

// A model that needs cuDNN is refused where the system has none; one that does not need it is not.
func TestMissingCuDNN(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "libcudnn.so.9")
	ort.UseCuDNN(t, name)
	contains(t, ort.CheckCuDNN([]string{"Relu", "Conv"}, nil), "NVIDIA's cuDNN for Conv,", name, "LD_LIBRARY_PATH")
	contains(t, ort.CheckCuDNN([]string{"LSTM", "Conv", "Conv"}, nil), "for Conv, LSTM,")
	for what, operators := range map[string][2][]string{
		"no need": {{"MatMul", "Softmax"}, nil}, "on the CPU": {{"Add"}, {"Conv"}}, "nothing": {},
	} {
		if err := ort.CheckCuDNN(operators[0], operators[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(name, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, ort.CheckCuDNN([]string{"Conv"}, nil), "cuDNN", name)
	if err := os.Rename(shared(t, "int cudnnCreate(void **h) { return 0; }"), name); err != nil {
		t.Fatal(err)
	}
	if err := ort.CheckCuDNN([]string{"Conv"}, nil); err != nil {
		t.Errorf("where it is: %v", err)
	}
}
