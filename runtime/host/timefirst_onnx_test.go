package host_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// timeFirst is a network x [time, batch, 2] → y, the state after each step, or after the last. Hidden, nobody follows
// its rows to the output.
func timeFirst(time, batch any, last, hidden bool) []byte {
	g := onnxgraph.New("g").Opset("", 20).Input("x", onnxgraph.Float, time, batch, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	weights := func(name string, shape ...int64) {
		values := make([]float32, 12*shape[2])
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		g.InitFloats(name, shape, values...)
	}
	weights("w", 1, 12, 2)
	weights("r", 1, 12, 3)
	g.InitInt64s("0", nil, 0)
	g.Node("LSTM", []string{"x", "w", "r"}, []string{"all", "last"}, onnxgraph.IntAttr("hidden_size", 3))
	from, axis, dims := "all", int64(1), []any{time, batch, 3}
	if last {
		from, axis, dims = "last", 0, []any{batch, 3}
	}
	if hidden {
		g.Node("SequenceConstruct", []string{from}, []string{"s"})
		g.Node("SequenceAt", []string{"s", "0"}, []string{"out of " + from})
		from = "out of " + from
	}
	g.InitInt64s("axis", []int64{1}, axis)
	g.Node("Squeeze", []string{from, "axis"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, dims...).Marshal()
}

// TestTimeFirst: rows are along the second dimension of a network that runs along the first, whatever these are called.
// Where neither names nor the graph show that, the reason says how to state it, and that works.
func TestTimeFirst(t *testing.T) {
	const advice = "name that, as in batching.batch_dim: {inputs: {x: 1}}"
	for name, test := range map[string]struct {
		time, batch  any
		last, hidden bool
		proof        catalog.Proof
	}{
		"named, the last step": {"seq_len", "batch", true, false, catalog.ProofStructure},
		"named, all steps":     {"seq_len", "batch", false, false, catalog.ProofStructure},
		"T, N":                 {"T", "N", false, true, catalog.ProofExamples},
		"in the output alone":  {"steps", "robots", true, true, catalog.ProofExamples},
		"without names":        {nil, nil, true, false, catalog.ProofStructure},
		"without a sign":       {nil, nil, false, true, catalog.ProofNone},
	} {
		t.Run(name, func(t *testing.T) {
			l := onnxModel(t, timeFirst(test.time, test.batch, test.last, test.hidden))
			h := onnxHost(t, l)
			v := h.Snapshot().Model("m").Version(1)
			if test.proof == catalog.ProofNone {
				if v.Batching.Batched || !strings.Contains(v.Batching.Reason, advice) {
					t.Fatalf("%+v", v.Batching)
				}
				l.Models = slices.Clone(l.Models) // a host may keep a listing that it was given
				l.Models[0].Manifest.Batching.BatchDim = modelrepo.BatchDim{Inputs: map[string]int{"x": 1}}
				if err := h.Reconcile(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				v, test.proof = h.Snapshot().Model("m").Version(1), catalog.ProofExamples
			}
			if v.State != catalog.Ready || !v.Batching.Batched || v.Batching.Proof != test.proof ||
				v.Signature.Inputs[0].BatchDim != 1 {
				t.Fatalf("%v %s, rows in dimension %d, %+v", v.State, v.Cause, v.Signature.Inputs[0].BatchDim, v.Batching)
			}
			o := newOracle(t, l.Models[0].Versions[0].Path)
			calls := make([]*catalog.Call, 32)
			errs := make([]error, len(calls))
			var all sync.WaitGroup
			for k := range calls {
				rows := 1 + k%3
				x := make([]float32, 5*rows*2)
				for i := range x {
					x[i] = float32((i*7+k*13)%11) - 5
				}
				calls[k] = &catalog.Call{
					Version: v, Rows: rows, Inputs: []tensor.Tensor{floats(tensor.Shape{5, int64(rows), 2}, x...)},
				}
				all.Go(func() { errs[k] = h.Predict(t.Context(), calls[k]) })
			}
			all.Wait()
			shared := 0
			for k, c := range calls {
				want, err := o.ask(c.Inputs)
				if err != nil || errs[k] != nil {
					t.Fatal(err, errs[k])
				}
				if got := c.Results[0]; !slices.Equal(got.Shape, want.Shape) || !sameAnswer(got, want) {
					t.Errorf("request %d: %v %v, want %v %v", k, got.Shape, values(got), want.Shape, values(want))
				}
				shared = max(shared, c.Outcome.BatchRequests)
			}
			t.Logf("up to %d requests in an execution", shared)
		})
	}
}
