package host_test

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// onnxHost loads a listing into a host with ONNX Runtime and a real scheduler over the CPU.
func onnxHost(t testing.TB, l modelrepo.Listing) *host.Host {
	t.Helper()
	library, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(library); err != nil {
		t.Fatal(err)
	}
	h := host.New(host.Config{Logger: slog.New(slog.DiscardHandler), Open: openONNX, Read: readONNX})
	s, err := shell.New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 1}}},
		h, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.Attach(s)
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	if err := h.Reconcile(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return h
}

func readONNX(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
	if v.Path == "" {
		return nil, nil
	}
	return modelfile.Read(ctx, v.Repository(), v.Dir, told)
}

func openONNX(_ context.Context, v modelrepo.Version, _ *modelfile.Files, m *modelrepo.Manifest,
	_ string, _ engine.Try,
) (engine.Opened, error) {
	s, err := ort.Open(v.Path, ort.Options{IntraOpThreads: int(m.ONNX.IntraOpThreads)})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider(), Notes: s.Notes()}, nil
}

// onnxModel is a listing of one model file.
func onnxModel(t testing.TB, model []byte) modelrepo.Listing {
	t.Helper()
	path := filepath.Join(t.TempDir(), modelrepo.ModelFile)
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	v := modelrepo.Version{Number: 1, Dir: filepath.Dir(path), Path: path}
	return modelrepo.Listing{Models: []modelrepo.Model{{
		Name: "m", Manifest: modelrepo.Defaults(), Versions: []modelrepo.Version{v}, Selected: []modelrepo.Version{v},
	}}}
}

func TestPolicyNetworkOnONNXRuntime(t *testing.T) {
	h := onnxHost(t, onnxModel(t, onnxgraph.MLP("policy", []int{48, 256, 128, 12}, 7, "Elu", "Tanh")))
	v := h.Snapshot().Model("m").Version(1)
	if !v.Batching.Batched || v.Batching.MaxBatchSize != 64 {
		t.Fatalf("state %v %s, batching %+v", v.State, v.Cause, v.Batching)
	}
	t.Log(v.Batching.Reason)

	rng := rand.New(rand.NewPCG(1, 1))
	inputs, alone := make([][]float32, 50), make([][]float32, 50)
	for i := range inputs {
		inputs[i] = make([]float32, 48*(1+i%3))
		for k := range inputs[i] {
			inputs[i][k] = float32(rng.NormFloat64())
		}
		c := ask(v, len(inputs[i])/48, inputs[i]...)
		if err := h.Predict(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if c.Outcome.DeviceTime == 0 {
			t.Error("no device time was measured")
		}
		alone[i] = values(c.Results[0])
	}
	crowd(t, 2000, func(i int) (sharedsched.Outcome, error) {
		i %= len(inputs)
		c := ask(v, len(inputs[i])/48, inputs[i]...)
		err := h.Predict(t.Context(), c)
		if err == nil {
			for k, y := range values(c.Results[0]) {
				if math.Abs(float64(y-alone[i][k])) > 1e-5 {
					t.Errorf("request %d: value %d is %v, alone it is %v", i, k, y, alone[i][k])
				}
			}
		}
		return c.Outcome, err
	})
}

// TestAnAuditOnONNXRuntime: rows that meet only where one of them has a certain sum, which no proof by structure sees,
// since none follows rows through a sequence. From the audit's word on nothing is wrong any more.
func TestAnAuditOnONNXRuntime(t *testing.T) {
	const magic = 777
	h := onnxHost(t, onnxModel(t, onnxgraph.New("meeting").
		Input("x", onnxgraph.Float, "n", 2).Output("y", onnxgraph.Float, "n", 2).
		Node("Constant", nil, []string{"magic"},
			onnxgraph.TensorAttr("value", onnxgraph.Float, nil, onnxgraph.FloatBytes([]float32{magic}))).
		Node("ReduceL1", []string{"x"}, []string{"sum"}, onnxgraph.IntsAttr("axes", 1), onnxgraph.IntAttr("keepdims", 1)).
		Node("Equal", []string{"sum", "magic"}, []string{"met"}).
		InitInt64s("first", nil, 0).
		Node("SequenceConstruct", []string{"met"}, []string{"sequence"}).
		Node("SequenceAt", []string{"sequence", "first"}, []string{"same"}).
		Node("Cast", []string{"same"}, []string{"one"}, onnxgraph.IntAttr("to", int64(onnxgraph.Float))).
		Node("ReduceMax", []string{"one"}, []string{"any"}, onnxgraph.IntsAttr("axes", 0), onnxgraph.IntAttr("keepdims", 1)).
		Node("Add", []string{"x", "x"}, []string{"twice"}).Node("Add", []string{"twice", "any"}, []string{"y"}).Marshal()))
	version := func() *catalog.Version { return h.Snapshot().Model("m").Version(1) }
	rng := rand.New(rand.NewPCG(3, 3))
	wave := func() (wrong int) {
		calls := make([]*catalog.Call, 256)
		for i := range calls {
			calls[i] = ask(version(), 1, float32(rng.IntN(700)), float32(rng.IntN(70)))
		}
		calls[rng.IntN(len(calls))] = ask(version(), 1, magic-77, 77)
		for i, err := range askAll(calls, func(c *catalog.Call) error { return h.Predict(t.Context(), c) }) {
			if err != nil {
				t.Fatal(err)
			}
			x, y := values(calls[i].Inputs[0]), values(calls[i].Results[0])
			if x[0]+x[1] != magic && (y[0] != 2*x[0] || y[1] != 2*x[1]) {
				wrong++
			}
		}
		return wrong
	}
	if b := version().Batching; !b.Batched {
		t.Fatal(b.Reason)
	}
	wrong, waves := 0, 0
	for ; version().Batching.Batched && waves < 2000; waves++ {
		wrong += wave()
	}
	if b := version().Batching; b.Batched || wrong == 0 {
		t.Fatalf("%d of %d answers were wrong: %s", wrong, 256*waves, b.Reason)
	}
	for range 5 {
		if wrong := wave(); wrong > 0 {
			t.Fatalf("%d wrong answers after it was found", wrong)
		}
	}
}
