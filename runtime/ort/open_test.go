package ort_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
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
	if diff := cmp.Diff(floats(tensor.Shape{2}, -1, 2), runOnce(t, s, floats(tensor.Shape{2}, 1, -2))[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
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
	contains(t, openError(t, declare(g.Marshal(), inputField, "x", tensorType(onnxgraph.Float))), `input "x"`, "no shape")
}

func TestExternalData(t *testing.T) {
	g := onnxgraph.New("external").Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2)
	g.ExternalInit("w", onnxgraph.Float, []int64{2}, "weights.bin", 4, 8).Node("Mul", []string{"x", "w"}, []string{"y"})
	model := g.Marshal()

	contains(t, openError(t, model), "weights.bin")

	initialise(t)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"model.onnx": model, "weights.bin": onnxgraph.FloatBytes([]float32{99, 3, 5})} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openFile(t, filepath.Join(dir, "model.onnx"))
	got := runOnce(t, s, floats(tensor.Shape{1, 2}, 10, 100))[0]
	if diff := cmp.Diff(floats(tensor.Shape{1, 2}, 30, 500), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProviders(t *testing.T) {
	initialise(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, onnxgraph.MLP("policy", []int{4, 2}, 1, "Tanh", ""), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if s.Pinner() != nil {
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
