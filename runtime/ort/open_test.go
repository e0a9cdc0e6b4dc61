package ort_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// contains fails the test unless err names everything that its reader needs.
func contains(t *testing.T, err error, wanted ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range wanted {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not mention %q", err, w)
		}
	}
}

func TestOpenMissingFile(t *testing.T) {
	initialise(t)
	_, err := ort.Open(filepath.Join(t.TempDir(), "nothing.onnx"), ort.Options{})
	contains(t, err, "nothing.onnx", "no such file")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	_, err = ort.Open(t.TempDir(), ort.Options{})
	contains(t, err, "directory")
}

func TestOpenDamagedFile(t *testing.T) {
	whole := onnxgraph.MLP("policy", []int{4, 8, 2}, 1, "Tanh", "")
	contains(t, openError(t, whole[:len(whole)/2]), "model.onnx", "damaged")
	contains(t, openError(t, []byte("version https://git-lfs.github.com/spec/v1\n")), "model.onnx", "damaged")
	contains(t, openError(t, nil), "model.onnx")
}

func TestOpenUnknownOperator(t *testing.T) {
	g := onnxgraph.New("odd").Input("x", onnxgraph.Float, 1).Output("y", onnxgraph.Float, 1)
	contains(t, openError(t, g.Node("NoSuchOperator", []string{"x"}, []string{"y"}).Marshal()), "NoSuchOperator")
}

func TestSequenceOutputIsLeftOut(t *testing.T) {
	g := onnxgraph.New("sequence").Input("x", onnxgraph.Float, "n").Output("y", onnxgraph.Float, "n")
	g.Node("SequenceConstruct", []string{"x", "x"}, []string{"both"}).Node("Neg", []string{"x"}, []string{"y"})
	s := openGraph(t, declare(g.Marshal(), outputField, "both", sequenceType(onnxgraph.Float)))
	sig := s.Signature()
	if len(sig.Outputs) != 1 || sig.Outputs[0].Name != "y" {
		t.Errorf("outputs: got %+v, want y alone", sig.Outputs)
	}
	if len(sig.Notes) != 1 || !strings.Contains(sig.Notes[0], `"both" is left out: it is a sequence`) {
		t.Errorf("notes: got %q, want one about the sequence", sig.Notes)
	}
	same(t, floats(tensor.Shape{2}, -1, 2), runOnce(t, s, floats(tensor.Shape{2}, 1, -2))[0])
}

func TestNothingToServe(t *testing.T) {
	g := onnxgraph.New("sequence").Input("x", onnxgraph.Float, "n")
	g.Node("SequenceConstruct", []string{"x", "x"}, []string{"both"})
	contains(t, openError(t, declare(g.Marshal(), outputField, "both", sequenceType(onnxgraph.Float))),
		"no output that is a tensor", "both")
}

func TestInputsThatCannotBeFed(t *testing.T) {
	// x may be a sequence, and optional.
	for kind, typeProto := range map[string][]byte{
		"sequence": sequenceType(onnxgraph.Float),
		"optional": optionalType(onnxgraph.Float),
	} {
		g := onnxgraph.New(kind).Opset("", 18).Output("y", onnxgraph.Bool)
		if kind == "sequence" {
			g = onnxgraph.New(kind).Output("y", onnxgraph.Int64)
			g.Node("SequenceLength", []string{"x"}, []string{"y"})
		} else {
			g.Node("OptionalHasElement", []string{"x"}, []string{"y"})
		}
		contains(t, openError(t, declare(g.Marshal(), inputField, "x", typeProto)), `input "x"`, kind, "dense tensors")
	}
	g := onnxgraph.New("shapeless").Output("y", onnxgraph.Float, nil).Node("Neg", []string{"x"}, []string{"y"})
	contains(t, openError(t, declare(g.Marshal(), inputField, "x", tensorType(onnxgraph.Float))), `input "x"`,
		"no shape")
}

func TestExternalData(t *testing.T) {
	g := onnxgraph.New("external").Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2)
	g.ExternalInit("w", onnxgraph.Float, []int64{2}, "weights.bin", 4, 8).Node("Mul", []string{"x", "w"}, []string{"y"})
	model := g.Marshal()

	contains(t, openError(t, model), "weights.bin")

	initialise(t)
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"model.onnx":  model,
		"weights.bin": onnxgraph.FloatBytes([]float32{99, 3, 5}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openFile(t, filepath.Join(dir, "model.onnx"))
	got := runOnce(t, s, floats(tensor.Shape{1, 2}, 10, 100))[0]
	same(t, floats(tensor.Shape{1, 2}, 30, 500), got)
}

// A model that a GPU cannot take now is for the caller to take elsewhere, since another GPU may take it; one that no
// GPU can take goes to the next provider.
func TestWhatTheGPUIsToBlameFor(t *testing.T) {
	const full, limit = "CUDA failure 2: out of memory ; GPU=0 ; hostname=h",
		"Available memory of 100 is smaller than requested bytes of 4096"
	all := []string{ort.TensorRT, ort.CUDA, ort.CPU}
	for name, c := range map[string]struct {
		providers            []string
		tensorRT, cuda, cpu  string // how each ends
		provider             string // that has it; "": none
		lost, memory, broken bool
	}{
		"fits": {providers: all[1:], provider: ort.CUDA},
		"full": {providers: all[1:], cuda: full, memory: true},
		"full arena": {
			providers: all[1:],
			cuda:      "Failed to allocate memory for requested buffer of size 4096", memory: true,
		},
		"lost": {
			providers: all[1:], cuda: "CUDA failure 719: unspecified launch failure ; GPU=0",
			lost: true,
		},
		"beyond the limit": {providers: all[1:], cuda: limit, provider: ort.CPU},
		"none": {providers: all[1:], cuda: "no CUDA device can be used: no CUDA-capable device is " +
			"detected (CUDA error 100)", provider: ort.CPU},
		"taken": {
			providers: all[1:],
			cuda:      "CUDA failure 46: CUDA-capable device(s) is/are busy or unavailable ; GPU=0", provider: ort.CPU,
		},
		"none, and no other": {
			providers: all[1:2],
			cuda:      "CUDA failure 100: no CUDA-capable device is detected ; GPU=0", broken: true,
		},
		"not built for it": {
			providers: all[1:], cuda: "CUDA execution provider is not enabled in this build",
			provider: ort.CPU,
		},
		"a processor that is full": {providers: all[2:], cpu: "std::bad_alloc", broken: true},
		"TensorRT wants too much":  {providers: all, tensorRT: full, provider: ort.CUDA},
		"too much for both":        {providers: all, tensorRT: full, cuda: full, memory: true},
		"only TensorRT is full":    {providers: all, tensorRT: full, cuda: "not enabled in this build", memory: true},
		"lost with TensorRT": {
			providers: all,
			tensorRT:  "CUDA failure 700: an illegal memory access was encountered", lost: true,
		},
	} {
		ends := map[string]error{}
		for p, text := range map[string]string{ort.TensorRT: c.tensorRT, ort.CUDA: c.cuda, ort.CPU: c.cpu} {
			if text != "" {
				ends[p] = errors.New(text)
			}
		}
		provider, notes, err := ort.FirstOf(c.providers, ends)
		kind := engine.KindOf(fmt.Errorf("cannot load m.onnx: %w", err))
		if lost, memory := kind == engine.DeviceLost, kind == engine.OutOfMemory; provider != c.provider ||
			lost != c.lost || memory != c.memory ||
			(err != nil) != (c.lost || c.memory || c.broken) {
			t.Errorf("%s: provider %q, lost %t, out of memory %t, error %v", name, provider, lost, memory, err)
		}
		if err == nil && len(notes) != slices.Index(c.providers, provider) {
			t.Errorf("%s: %d notes %q, want one for each provider that was passed over", name, len(notes), notes)
		}
	}
}

func TestProviders(t *testing.T) {
	initialise(t)
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", onnxgraph.MLP("policy", []int{4, 2}, 1, "Tanh", ""))
	_, err := ort.Open(path, ort.Options{Providers: []string{"tpu"}})
	contains(t, err, `"tpu"`, "cpu, cuda, tensorrt, openvino and coreml")

	have, err := ort.Providers()
	if err != nil || len(have) == 0 || have[0] != ort.CPU {
		t.Fatalf("providers %q, %v; want cpu among them", have, err)
	}
	for _, p := range []string{ort.CUDA, ort.TensorRT, ort.OpenVINO, ort.CoreML} {
		if slices.Contains(have, p) {
			continue
		}
		_, err := ort.Open(path, ort.Options{Providers: []string{p}})
		contains(t, err, path, p+" asked for but not there", " has "+strings.Join(have, ", ")+" (")
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %v", p, err)
		}
	}
	if s, err := ort.Open(path, ort.Options{Providers: []string{ort.CUDA}}); err == nil {
		_ = s.Close()
		t.Skip("this machine has CUDA")
	} else {
		contains(t, err, path, "cuda asked for but not there")
		if strings.ContainsAny(err.Error(), "[\n") {
			t.Errorf("the error is not one sentence: %v", err)
		}
	}
	s, err := ort.Open(path, ort.Options{Providers: []string{ort.CUDA, ort.CPU}, CUDAGraphs: true, PinBuffers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Memory() != nil {
		t.Error("buffers for the CPU are page-locked")
	}
	if s.Provider() != ort.CPU {
		t.Errorf("provider: got %q, want %q", s.Provider(), ort.CPU)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "cuda asked for but not there: ") ||
		!strings.HasSuffix(notes[0], "; using cpu") {
		t.Errorf("notes: got %q, want the fall-back and its reason", notes)
	}
	runOnce(t, s, floats(tensor.Shape{1, 4}, 1, 2, 3, 4))
}
