package host_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// reference is the answers that ref.json next to a model records.
type reference struct {
	Cases []struct {
		Inputs, Outputs []struct {
			Name, Datatype string
			Shape          tensor.Shape
			Data           []byte `json:"data_b64"`
			Strings        []string
		}
	}
}

// datatypes are the element types in the spelling of the Open Inference Protocol.
var datatypes = map[string]tensor.DType{
	"FP16": tensor.Float16, "FP32": tensor.Float32, "INT32": tensor.Int32, "INT64": tensor.Int64,
	"BYTES": tensor.String,
}

// calls turns the cases into calls of v and the answers that they should have, by output.
func (r *reference) calls(t *testing.T, v *catalog.Version) (calls []catalog.Call, want [][]tensor.Tensor) {
	for _, c := range r.Cases {
		inputs := make([]tensor.Tensor, len(v.Signature.Inputs))
		outputs := make([]tensor.Tensor, len(v.Signature.Outputs))
		for _, in := range c.Inputs {
			inputs[v.Signature.Input(in.Name)] = tensor.Tensor{
				DType: datatypes[in.Datatype], Shape: in.Shape,
				Data: in.Data,
			}
			if in.Strings != nil {
				inputs[v.Signature.Input(in.Name)] = words(in.Shape, in.Strings...)
			}
		}
		for _, out := range c.Outputs {
			outputs[v.Signature.Output(out.Name)] = tensor.Tensor{
				DType: datatypes[out.Datatype], Shape: out.Shape,
				Data: out.Data,
			}
		}
		rows, err := v.Signature.Rows(inputs)
		if err != nil {
			t.Fatal(err)
		}
		calls, want = append(calls, catalog.Call{Version: v, Inputs: inputs, Rows: rows}), append(want, outputs)
	}
	return calls, want
}

// agree compares answers with the recorded ones.
func agree(got, want []tensor.Tensor) error {
	for i := range want {
		if got[i].DType != want[i].DType || !slices.Equal(got[i].Shape, want[i].Shape) {
			return fmt.Errorf("output %d is %v %v, want %v %v", i, got[i].DType, got[i].Shape, want[i].DType,
				want[i].Shape)
		}
		if want[i].DType != tensor.Float32 && want[i].DType != tensor.Float16 {
			if string(got[i].Data) != string(want[i].Data) {
				return fmt.Errorf("output %d differs", i)
			}
			continue
		}
		g, w, tolerance := values(got[i]), values(want[i]), 1e-5
		if want[i].DType == tensor.Float16 {
			g, w, tolerance = halves(got[i]), halves(want[i]), 2e-3
		}
		far, largest := 0.0, 0.0
		for k := range w {
			far, largest = max(far, math.Abs(float64(g[k]-w[k]))), max(largest, math.Abs(float64(w[k])))
		}
		if far > tolerance*largest {
			return fmt.Errorf("output %d differs by %g of the largest magnitude", i, far/largest)
		}
	}
	return nil
}

// halves reads finite fp16 values.
func halves(t tensor.Tensor) []float32 {
	out := make([]float32, len(t.Data)/2)
	for i := range out {
		h := uint16(t.Data[2*i]) | uint16(t.Data[2*i+1])<<8
		mantissa, exponent := float64(h&0x3ff), int(h>>10&0x1f)
		if exponent == 0 {
			exponent = 1
		} else {
			mantissa += 1024
		}
		out[i] = float32(math.Ldexp(mantissa, exponent-25)) * (1 - 2*float32(h>>15))
	}
	return out
}

// TestReferenceModels loads every model that has recorded answers, all of them at once, and asks each alone and then in
// a crowd that mixes its cases.
func TestReferenceModels(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	root := os.Getenv("WEFT_TEST_MODELS")
	if root == "" {
		t.Skip("WEFT_TEST_MODELS names no model repository")
	}
	offerLocale(t)
	repository, err := modelrepo.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	var listing modelrepo.Listing
	references := map[string]*reference{}
	for _, m := range repository.Scan().Models {
		m.Selected = nil
		for _, v := range m.Versions {
			raw, err := os.ReadFile(filepath.Join(v.Dir, "ref.json"))
			if err != nil {
				continue
			}
			r := &reference{}
			if err := json.Unmarshal(raw, r); err != nil {
				t.Fatalf("%s: %v", v.Dir, err)
			}
			references[fmt.Sprintf("%s/%d", m.Name, v.Number)] = r
			m.Selected = append(m.Selected, v)
		}
		if m.Selected != nil {
			m.Versions = m.Selected
			listing.Models = append(listing.Models, m)
		}
	}
	if len(references) == 0 {
		t.Fatalf("no model in %s has a ref.json", root)
	}
	h := onnxHost(t, listing)
	for _, m := range h.Snapshot().Models.All() {
		for _, v := range m.Versions {
			name := fmt.Sprintf("%s/%d", v.Model, v.Number)
			t.Run(name, func(t *testing.T) {
				if v.State != catalog.Ready {
					t.Fatalf("%v: %s", v.State, v.Cause)
				}
				t.Logf("batched %v: %s", v.Batching.Batched, v.Batching.Reason)
				calls, want := references[name].calls(t, v)
				for i := range calls {
					c := calls[i]
					if err := h.Predict(t.Context(), &c); err != nil {
						t.Fatalf("case %d: %v", i, err)
					}
					if err := agree(c.Results, want[i]); err != nil {
						t.Errorf("case %d alone: %v", i, err)
					}
				}
				ask := func(i int) (sharedsched.Outcome, error) {
					i = i * 7 % len(calls)
					c := calls[i]
					err := h.Predict(t.Context(), &c)
					if err == nil {
						err = agree(c.Results, want[i])
					}
					return c.Outcome, err
				}
				if v.Batching.Batched {
					crowd(t, 200, ask)
					return
				}
				for i := range 8 {
					if _, err := ask(i); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
				}
			})
		}
	}
}

// offerLocale makes the locale that ONNX Runtime's StringNormalizer wants, where the system has the means but not the
// locale.
func offerLocale(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := exec.CommandContext(t.Context(), "localedef", "-i", "en_US", "-f",
		"UTF-8", filepath.Join(dir, "en_US.UTF-8")).Run(); err != nil {
		t.Logf("no locale en_US.UTF-8 can be made here (Debian has what is needed in the package locales): %v", err)
		return
	}
	t.Setenv("LOCPATH", dir)
}
