package tensor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestSignature(t *testing.T) {
	sig := &tensor.Signature{
		Inputs:  []tensor.Spec{{Name: "a"}, {Name: "b"}},
		Outputs: []tensor.Spec{{Name: "b"}},
		Notes:   []string{"note"},
	}
	got := []int{sig.Input("a"), sig.Input("b"), sig.Input("c"), sig.Output("b"), sig.Output("a")}
	if diff := cmp.Diff([]int{0, 1, -1, 0, -1}, got); diff != "" {
		t.Errorf("positions (-want +got)\n%s", diff)
	}
	clone := sig.Clone()
	if diff := cmp.Diff(sig, clone); diff != "" {
		t.Errorf("clone (-want +got)\n%s", diff)
	}
	clone.Inputs[0].BatchDim, clone.Outputs[0].Name, clone.Notes[0] = 5, "z", "changed"
	if sig.Inputs[0].BatchDim != 0 || sig.Outputs[0].Name != "b" || sig.Notes[0] != "note" {
		t.Errorf("writing to the clone changed the original: %+v", sig)
	}
}
