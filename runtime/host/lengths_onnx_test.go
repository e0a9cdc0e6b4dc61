package host_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

const (
	vocabulary = 100
	width      = 6
)

// encoder is a model of ids and mask [batch, tokens] that looks ids up in a table, giving each token's row of it,
// states [batch, ?, width], and their mean, pooled [batch, width]: of the tokens that the mask lets through, or of all.
func encoder(masked bool) []byte {
	rng := rand.New(rand.NewPCG(8, 8))
	table := make([]float32, vocabulary*width)
	for i := range table {
		table[i] = float32(rng.NormFloat64())
	}
	g := onnxgraph.New("encoder")
	g.InitFloats("table", []int64{vocabulary, width}, table...)
	g.InitInt64s("last", []int64{1}, 2)
	g.InitInt64s("middle", []int64{1}, 1)
	g.Input("ids", onnxgraph.Int64, "batch", "tokens")
	g.Input("mask", onnxgraph.Int64, "batch", "tokens")
	g.Node("Gather", []string{"table", "ids"}, []string{"states"}, onnxgraph.IntAttr("axis", 0))
	g.Node("Cast", []string{"mask"}, []string{"weights"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float)))
	g.Node("Unsqueeze", []string{"weights", "last"}, []string{"column"})
	g.Node("Mul", []string{"states", "column"}, []string{"weighted"})
	if masked {
		g.Node("ReduceSum", []string{"weighted", "middle"}, []string{"sum"}, onnxgraph.IntAttr("keepdims", 0))
		g.Node("ReduceSum", []string{"weights", "middle"}, []string{"count"}, onnxgraph.IntAttr("keepdims", 1))
		g.Node("Div", []string{"sum", "count"}, []string{"pooled"})
	} else {
		g.Node("ReduceMean", []string{"weighted"}, []string{"pooled"}, onnxgraph.IntsAttr("axes", 1),
			onnxgraph.IntAttr("keepdims", 0))
	}
	// The name is not that of the inputs' dimension, as in some exports.
	g.Output("states", onnxgraph.Float, "batch", "sequence", width)
	g.Output("pooled", onnxgraph.Float, "batch", width)
	return g.Marshal()
}

func int64s(shape tensor.Shape, values ...int64) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Int64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(v))
	}
	return t
}

// sentence is a call of n tokens.
func sentence(v *catalog.Version, rng *rand.Rand, n int) *catalog.Call {
	ids, mask := make([]int64, n), make([]int64, n)
	for i := range ids {
		ids[i], mask[i] = rng.Int64N(vocabulary), 1
	}
	shape := tensor.Shape{1, int64(n)}
	return &catalog.Call{Version: v, Rows: 1, Inputs: []tensor.Tensor{int64s(shape, ids...), int64s(shape, mask...)}}
}

func idsAndMask(m *modelrepo.Manifest, ids, mask string, sizes ...int) {
	m.Batching.VariableDims = map[string]modelrepo.VariableDim{
		ids:  {Axis: 1, Buckets: sizes},
		mask: {Axis: 1, Buckets: sizes},
	}
}

// TestSentencesOfSeveralLengthsOnONNXRuntime compares the answers to a crowd of sentences with those of a server
// without buckets to each.
func TestSentencesOfSeveralLengthsOnONNXRuntime(t *testing.T) {
	plainListing := onnxModel(t, encoder(true))
	plain := onnxHost(t, plainListing)
	listing := onnxModel(t, encoder(true))
	idsAndMask(&listing.Models[0].Manifest, "ids", "mask", 4, 16)
	h := onnxHost(t, listing)
	v := h.Snapshot().Model("m").Version(1)
	if v.State != catalog.Ready || v.Signature.Inputs[0].Variable.Buckets == nil {
		t.Fatalf("%v %s, not padded: %s", v.State, v.Cause, v.Batching.Reason)
	}
	t.Log(v.Batching.Reason)
	want := []string{
		`input "ids" takes 1 to 16 elements in dimension 1, padded to 4, 16`,
		`input "mask" takes 1 to 16 elements in dimension 1, padded to 4, 16`,
		`output "states" is cut back in dimension 1 to the length of input "ids"`,
	}
	if diff := cmp.Diff(want, v.Signature.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}

	rng := rand.New(rand.NewPCG(2, 2))
	var calls []*catalog.Call
	var answers [][]tensor.Tensor
	for i := range 48 {
		c := sentence(plain.Snapshot().Model("m").Version(1), rng, 1+i%16)
		if err := plain.Predict(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		calls, answers = append(calls, c), append(answers, c.Results)
	}
	crowd(t, 2000, func(i int) (sharedsched.Outcome, error) {
		i %= len(calls)
		c := &catalog.Call{Version: v, Rows: 1, Inputs: calls[i].Inputs}
		if err := h.Predict(t.Context(), c); err != nil {
			return c.Outcome, err
		}
		return c.Outcome, agree(c.Results, answers[i])
	})
	long := sentence(v, rng, 17)
	if _, err := v.Signature.Rows(long.Inputs); err == nil ||
		!strings.Contains(err.Error(),
			`inputs["ids"].shape: expected 1 to 16 elements in dimension 1 (16 is the largest bucket), got 17 in [1,17]`) {
		t.Errorf("17 tokens: %v", err)
	}
}

// TestPaddingThatHarmsOnONNXRuntime: each length has a queue of its own, and the answers are right.
func TestPaddingThatHarmsOnONNXRuntime(t *testing.T) {
	listing := onnxModel(t, encoder(false))
	idsAndMask(&listing.Models[0].Manifest, "ids", "mask", 4, 16)
	h := onnxHost(t, listing)
	v := h.Snapshot().Model("m").Version(1)
	if v.State != catalog.Ready || !v.Batching.Batched || v.Signature.Inputs[0].Variable.Buckets != nil ||
		!strings.Contains(v.Batching.Reason,
			`because padding is not proven harmless: output "pooled" of a row differs by`) {
		t.Fatalf("%v %s: %s", v.State, v.Cause, v.Batching.Reason)
	}
	t.Log(v.Batching.Reason)
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		c := sentence(v, rng, 3)
		if err := h.Predict(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		states, pooled := values(c.Results[0]), values(c.Results[1])
		for k, p := range pooled {
			if mean := (states[k] + states[width+k] + states[2*width+k]) / 3; math.Abs(float64(p-mean)) > 1e-5 {
				t.Errorf("pooled[%d] is %v, want %v", k, p, mean)
			}
		}
	}
}

// TestEncoderThatPaddingChanges has a real model: its rows are independent, but padding changes its answers despite a
// mask.
func TestEncoderThatPaddingChanges(t *testing.T) {
	root := os.Getenv("WEFT_TEST_MODELS")
	if root == "" {
		t.Skip("WEFT_TEST_MODELS names no model repository")
	}
	model, err := os.ReadFile(filepath.Join(root, "text_encoder_rand", "1", modelrepo.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	listing := onnxModel(t, model)
	idsAndMask(&listing.Models[0].Manifest, "input_ids", "attention_mask", 8, 16)
	v := onnxHost(t, listing).Snapshot().Model("m").Version(1)
	if v.State != catalog.Ready || !v.Batching.Batched || v.Signature.Inputs[0].Variable.Buckets != nil ||
		!strings.Contains(v.Batching.Reason,
			`because padding is not proven harmless: output "last_hidden_state" of a row differs by`) {
		t.Errorf("%v %s: %s", v.State, v.Cause, v.Batching.Reason)
	}
	t.Log(v.Batching.Reason)
}
