package ort_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// references is ref.json: ONNX Runtime's answers on another machine.
type references struct {
	Cases []struct {
		Seed            int64
		Inputs, Outputs []reference
	}
}

type reference struct {
	Name, DataType string
	Shape          tensor.Shape
	DataB64        []byte `json:"data_b64"`
	Strings        []string
}

// openInference names our element types as the Open Inference Protocol does.
var openInference = map[string]tensor.DType{
	"BOOL": tensor.Bool, "INT8": tensor.Int8, "INT16": tensor.Int16, "INT32": tensor.Int32, "INT64": tensor.Int64,
	"UINT8": tensor.Uint8, "UINT16": tensor.Uint16, "UINT32": tensor.Uint32, "UINT64": tensor.Uint64,
	"FP16": tensor.Float16, "BF16": tensor.BFloat16, "FP32": tensor.Float32, "FP64": tensor.Float64,
	"BYTES": tensor.String,
}

func (r reference) tensor() tensor.Tensor {
	v := tensor.Tensor{DType: openInference[r.DataType], Shape: r.Shape, Data: r.DataB64}
	if v.DType == tensor.String {
		v.Data = stringsOf(nil, r.Strings...).Data
	}
	return v
}

func modelsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEFT_TEST_MODELS")
	if dir == "" {
		t.Skip("WEFT_TEST_MODELS does not name a folder of models with reference answers")
	}
	return dir
}

// eachReference tests each model that has reference answers, which is opened on the processor.
func eachReference(t *testing.T, test func(t *testing.T, path string, onCPU *ort.Session, refs references)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(modelsDir(t), "*", "*", "ref.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no model with a ref.json: %v", err)
	}
	initialise(t)
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var refs references
			if err := json.Unmarshal(raw, &refs); err != nil || len(refs.Cases) == 0 {
				t.Fatalf("%d cases, %v", len(refs.Cases), err)
			}
			path := filepath.Join(dir, "model.onnx")
			s, err := ort.Open(path, ort.Options{})
			if err != nil && strings.Contains(err.Error(), "LOCPATH") {
				offerLocale(t, err)
				s, err = ort.Open(path, ort.Options{})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			test(t, path, s, refs)
		})
	}
}

func TestReferenceModels(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	eachReference(t, func(t *testing.T, _ string, s *ort.Session, refs references) {
		for _, c := range refs.Cases {
			compareReference(t, s, c.Inputs, c.Outputs)
		}
	})
}

// offerLocale follows the error's advice, or skips the test where the system lacks the means.
func offerLocale(t *testing.T, cause error) {
	t.Helper()
	dir := t.TempDir()
	compile := exec.CommandContext(t.Context(), "localedef", "-i", "en_US", "-f",
		"UTF-8", filepath.Join(dir, "en_US.UTF-8"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Skipf("%v\nand it cannot be made here (Debian has what is needed in the package locales): %v\n%s", cause, err,
			out)
	}
	t.Setenv("LOCPATH", dir)
}

func compareReference(t *testing.T, s *ort.Session, in, out []reference) {
	t.Helper()
	sig := s.Signature()
	inputs := make([]tensor.Tensor, len(sig.Inputs))
	for _, r := range in {
		inputs[sig.Input(r.Name)] = r.tensor()
	}
	got := runOnce(t, s, inputs...)
	if len(out) != len(got) {
		t.Errorf("%d outputs, want %d", len(got), len(out))
	}
	for _, r := range out {
		g, want := got[sig.Output(r.Name)], r.tensor()
		tolerance := map[tensor.DType]float64{tensor.Float16: 2e-3, tensor.Float32: 1e-5}[want.DType]
		if d, err := compare.Relative(g, want, nil, 0); err != nil || d > tolerance {
			t.Errorf("output %q: deviates by %g of the largest magnitude, want at most %g: %v", r.Name, d, tolerance, err)
		}
	}
}

// Odd models load, and answer an input of zeros, or fail with words.
func TestEdgeModels(t *testing.T) {
	edge := filepath.Join(modelsDir(t), "edge")
	files, err := filepath.Glob(filepath.Join(edge, "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models: %v", err)
	}
	initialise(t)
	for _, file := range append(files, filepath.Join(edge, "external_data", "model.onnx")) {
		name, _ := filepath.Rel(edge, file)
		t.Run(name, func(t *testing.T) {
			s, err := ort.Open(file, ort.Options{})
			if err != nil {
				contains(t, err, file)
				t.Logf("refused: %v", err)
				return
			}
			defer s.Close()
			for _, spec := range s.Signature().Inputs {
				t.Logf("input  %q %v %v %q", spec.Name, spec.DType, spec.Shape, spec.DimNames)
			}
			for _, spec := range s.Signature().Outputs {
				t.Logf("output %q %v %v %q", spec.Name, spec.DType, spec.Shape, spec.DimNames)
			}
			t.Logf("notes  %q", s.Signature().Notes)
			var inputs []tensor.Tensor
			for _, spec := range s.Signature().Inputs {
				shape := append(tensor.Shape{}, spec.Shape...)
				for i := range shape {
					shape[i] = max(shape[i], 1)
				}
				inputs = append(inputs, zeros(spec.DType, shape))
			}
			b := batchOf(t, s, inputs...)
			if err := s.Run(t.Context(), b); err != nil {
				t.Logf("run failed: %v", err)
				return
			}
			for i, out := range outputs(t, b) {
				if spec := s.Signature().Outputs[i]; out.DType != spec.DType {
					t.Errorf("output %q: got %v, want %v", spec.Name, out.DType, spec.DType)
				}
			}
		})
	}
}

func zeros(d tensor.DType, shape tensor.Shape) tensor.Tensor {
	n, _ := shape.Elements()
	size := d.Size()
	if d == tensor.String {
		size = 4 // the length of an empty string
	}
	return tensor.Tensor{DType: d, Shape: shape, Data: make([]byte, int(n)*size)}
}
