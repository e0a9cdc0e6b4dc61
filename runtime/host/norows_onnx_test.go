package host_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestNoRowsRunAsTheModelWould: where requests are executed one by one, the model itself answers one without a row,
// whether its rows were never to be joined, or turned out to meet.
func TestNoRowsRunAsTheModelWould(t *testing.T) {
	graph := func() *onnxgraph.Graph {
		return onnxgraph.New("g").
			Input("x", onnxgraph.Float, "batch", 4).Input("words", onnxgraph.String, "batch").
			Output("twice", onnxgraph.Float, "batch", 4).Output("sum", onnxgraph.Float).Output("same", onnxgraph.String,
			"batch").Output("rows", onnxgraph.Int64, 2).
			Node("Add", []string{"x", "x"}, []string{"twice"}).
			Node("ReduceSum", []string{"x"}, []string{"sum"}, onnxgraph.IntAttr("keepdims", 0)).
			Node("Identity", []string{"words"}, []string{"same"}).
			Node("Shape", []string{"x"}, []string{"rows"})
	}
	for name, mode := range map[string]modelrepo.BatchMode{
		"off":           modelrepo.BatchOff,
		"its rows meet": modelrepo.BatchAuto,
	} {
		t.Run(name, func(t *testing.T) {
			l := onnxModel(t, graph().Marshal())
			l.Models[0].Manifest.Batching.Mode = mode
			h := onnxHost(t, l)
			v := h.Snapshot().Model("m").Version(1)
			if v.State != catalog.Ready || v.Batching.Batched {
				t.Fatalf("%v %s, batching %+v", v.State, v.Cause, v.Batching)
			}
			words := func(n int) tensor.Tensor {
				w := tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{int64(n)}}
				for range n {
					w.Data = tensor.AppendString(w.Data, []byte("w"))
				}
				return w
			}
			askFor := func(rows int, x ...float32) (*catalog.Call, error) {
				call := &catalog.Call{
					Version: v,
					Inputs:  []tensor.Tensor{floats(tensor.Shape{int64(rows), 4}, x...), words(rows)},
				}
				var err error
				if call.Rows, err = v.Signature.Rows(call.Inputs); err != nil {
					return nil, err
				}
				return call, h.Predict(t.Context(), call)
			}
			var all sync.WaitGroup
			for k := range 32 {
				all.Go(func() {
					rows, want := k%2, []float32(nil)
					if rows == 1 {
						want = []float32{1, 2, 3, float32(k)}
					}
					call, err := askFor(rows, want...)
					if err != nil {
						t.Errorf("%d rows: %v", rows, err)
						return
					}
					sum := float32(0)
					for i := range want {
						sum += want[i]
						want[i] *= 2
					}
					twice, total, same, shape := call.Results[0], call.Results[1], call.Results[2], call.Results[3]
					switch {
					case !slices.Equal(twice.Shape, tensor.Shape{int64(rows), 4}), !slices.Equal(values(twice), want),
						len(total.Shape) != 0, !slices.Equal(values(total), []float32{sum}),
						!slices.Equal(same.Shape, tensor.Shape{int64(rows)}), len(same.Data) != 5*rows,
						shape.Data[0] != byte(rows):
						t.Errorf("%d rows are answered with %+v", rows, call.Results)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestRequestsWithoutRowsAreAnswered as the model answers them, and say nothing of the version's rows, whatever sizes
// are allowed.
func TestRequestsWithoutRowsAreAnswered(t *testing.T) {
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "batch", 3).Input("words", onnxgraph.String, "batch").
		Node("Add", []string{"x", "x"}, []string{"y"}).Output("y", onnxgraph.Float, "batch", 3).
		Node("Identity", []string{"words"}, []string{"same"}).Output("same", onnxgraph.String, "batch")
	l := onnxModel(t, g.Marshal())
	b := &l.Models[0].Manifest.Batching
	b.AllowedBatchSizes, b.MaxBatchSize, b.Audit = []int{4}, 4, 0
	h := onnxHost(t, l)
	version := func() *catalog.Version { return h.Snapshot().Model("m").Version(1) }
	v := version()
	if v.State != catalog.Ready || !v.Batching.Batched {
		t.Fatalf("%v %s, batching %+v", v.State, v.Cause, v.Batching)
	}
	var all sync.WaitGroup
	for k := range 32 {
		all.Go(func() {
			rows := k % 2
			x, w := floats(tensor.Shape{int64(rows), 3}), words(tensor.Shape{int64(rows)})
			if rows == 1 {
				x, w = floats(tensor.Shape{1, 3}, 1, 2, float32(k)), words(tensor.Shape{1}, "w")
			}
			call := &catalog.Call{Version: v, Rows: rows, Inputs: []tensor.Tensor{x, w}}
			if err := h.Predict(t.Context(), call); err != nil {
				t.Errorf("%d rows: %v", rows, err)
				return
			}
			y, same := call.Results[0], call.Results[1]
			if !slices.Equal(y.Shape, x.Shape) || rows == 1 &&
				!slices.Equal(values(y), []float32{2, 4, float32(2 * k)}) ||
				!slices.Equal(same.Shape, w.Shape) || !slices.Equal(texts(same), texts(w)) {
				t.Errorf("%d rows are answered with %+v", rows, call.Results)
			}
		})
	}
	all.Wait()
	if b := version().Batching; !b.Batched {
		t.Errorf("it is out of batching: %s", b.Reason)
	}
}
