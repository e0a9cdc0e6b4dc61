package host_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
)

func constant(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }

// meetingGraph is x [n, 2] → y [n, 2], twice x, and one more in every row if the sum of any row is magic. No proof by
// structure sees it, since none follows rows through a sequence.
func meetingGraph() []byte {
	return onnxgraph.New("meeting").
		Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2).
		Node("Constant", nil, []string{"magic"}, onnxgraph.TensorAttr("value", onnxgraph.Float, nil, constant(magic))).
		Node("ReduceL1", []string{"x"}, []string{"sum"}, onnxgraph.IntsAttr("axes", 1),
			onnxgraph.IntAttr("keepdims", 1)).
		Node("Equal", []string{"sum", "magic"}, []string{"met"}).
		InitInt64s("first", nil, 0).
		Node("SequenceConstruct", []string{"met"}, []string{"sequence"}).
		Node("SequenceAt", []string{"sequence", "first"}, []string{"same"}).
		Node("Cast", []string{"same"}, []string{"one"}, onnxgraph.IntAttr("to", 1)).
		Node("ReduceMax", []string{"one"}, []string{"any"}, onnxgraph.IntsAttr("axes", 0),
			onnxgraph.IntAttr("keepdims", 1)).
		Node("Add", []string{"x", "x"}, []string{"twice"}).
		Node("Add", []string{"twice", "any"}, []string{"y"}).
		Marshal()
}

// filterGraph is x [n, 2] → y [m, 2]: the rows whose sum is not magic.
func filterGraph() []byte {
	return onnxgraph.New("filter").
		Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2).
		Node("Constant", nil, []string{"magic"}, onnxgraph.TensorAttr("value", onnxgraph.Float, nil, constant(magic))).
		Node("ReduceL1", []string{"x"}, []string{"sum"}, onnxgraph.IntsAttr("axes", 1),
			onnxgraph.IntAttr("keepdims", 0)).
		Node("Equal", []string{"sum", "magic"}, []string{"met"}).
		Node("Not", []string{"met"}, []string{"kept"}).
		Node("Compress", []string{"x", "kept"}, []string{"y"}, onnxgraph.IntAttr("axis", 0)).
		Marshal()
}

// atOnce asks for all rows at once, each in a request of its own, and returns the answers.
func atOnce(t *testing.T, h *host.Host, rows [][2]float32) [][]float32 {
	t.Helper()
	v := h.Snapshot().Model("m").Version(1)
	answers := make([][]float32, len(rows))
	var callers sync.WaitGroup
	for i, row := range rows {
		callers.Go(func() {
			c := &catalog.Call{Version: v, Rows: 1, Inputs: ask(v, 1, row[0], row[1]).Inputs}
			if err := h.Predict(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			answers[i] = values(c.Results[0])
		})
	}
	callers.Wait()
	return answers
}

// TestAnAuditOnONNXRuntime: rows that meet only where one of them has a certain sum. From the audit's word on nothing
// is wrong any more.
func TestAnAuditOnONNXRuntime(t *testing.T) {
	h := onnxHost(t, onnxModel(t, meetingGraph()))
	b := func() catalog.Batching { return h.Snapshot().Model("m").Version(1).Batching }
	if !b().Batched {
		t.Fatal(b().Reason)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	ask := func() (wrong int) {
		rows := make([][2]float32, 256)
		for i := range rows {
			rows[i] = [2]float32{float32(rng.IntN(700)), float32(rng.IntN(70))}
		}
		if rng.IntN(4) == 0 {
			rows[rng.IntN(256)] = [2]float32{700, 77}
		}
		for i, y := range atOnce(t, h, rows) {
			if rows[i] != [2]float32{700, 77} && (y[0] != 2*rows[i][0] || y[1] != 2*rows[i][1]) {
				wrong++
			}
		}
		return wrong
	}
	wrong, waves := 0, 0
	for ; b().Batched && waves < 2000; waves++ {
		wrong += ask()
	}
	if b().Batched {
		t.Fatalf("%d of %d answers were wrong, and nobody noticed", wrong, 256*waves)
	}
	compared := h.Snapshot().Model("m").Version(1).Live().Audited
	t.Logf("%d of %d answers were wrong before the audit found one in %d rows", wrong, 256*waves, compared)
	for range 20 {
		if wrong := ask(); wrong > 0 {
			t.Fatalf("%d wrong answers after it was found", wrong)
		}
	}
}

// TestAFilterOnONNXRuntime: no request fails for its mates' sake.
func TestAFilterOnONNXRuntime(t *testing.T) {
	h := onnxHost(t, onnxModel(t, filterGraph()))
	if b := h.Snapshot().Model("m").Version(1).Batching; !b.Batched {
		t.Fatal(b.Reason)
	}
	rows := make([][2]float32, 64)
	for i := range rows {
		if rows[i] = [2]float32{float32(i), 1}; i%9 == 8 {
			rows[i] = [2]float32{700, 77}
		}
	}
	for range 3 {
		for i, y := range atOnce(t, h, rows) {
			if i%9 == 8 && len(y) != 0 || i%9 != 8 && (len(y) != 2 || y[0] != rows[i][0]) {
				t.Fatalf("row %v gave %v", rows[i], y)
			}
		}
	}
	b := h.Snapshot().Model("m").Version(1).Batching
	for tries := 0; b.Batched && tries < 1000; tries++ { // the finding is published soon
		atOnce(t, h, rows)
		b = h.Snapshot().Model("m").Version(1).Batching
	}
	if b.Batched || !strings.Contains(b.Reason, `output "y" has the shape [`) {
		t.Errorf("published %+v", b)
	}
}
