package app

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestOperatorLibraries: models use the operators of a library in either isolation, where nothing is proven of these
// by the graph: what they do to synthetic inputs decides.
func TestOperatorLibraries(t *testing.T) {
	library := weftest.Operators(t)
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	onnxRuntime, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(library))
	name := filepath.Base(library) // which the loader would look for elsewhere
	repository := t.TempDir()
	add := func(model, domain, op string, adjust func(*onnxgraph.Graph)) {
		g := onnxgraph.New("g").Opset("weft.test", 1).Input("x", onnxgraph.Float, "n", 4).
			DomainNode(domain, op, []string{"x"}, []string{"y"}).Output("y", onnxgraph.Float, "n", 4)
		if adjust != nil {
			adjust(g)
		}
		weftest.AddVersion(t, repository, model, 1)
		weftest.WriteFile(t, filepath.Join(repository, model, "1"), "model.onnx", g.Marshal())
	}
	add("twice", "weft.test", "Twice", nil)
	add("total", "weft.test", "Total", nil)
	add("function", "weft.test", "Twice", func(g *onnxgraph.Graph) { // it is not what runs
		g.Function("weft.test", "Twice", onnxgraph.New("").Node("Abs", []string{"a"}, []string{"b"}), []string{"a"},
			[]string{"b"}, nil)
	})
	add("plain", "", "Abs", nil)
	for _, isolation := range []config.Isolation{config.IsolateDevice, config.IsolateNone} {
		t.Run(string(isolation), func(t *testing.T) {
			log := &weftest.Log{}
			r := serveLogging(t, repository, func(a *App) {
				a.Isolation, a.ONNXRuntimeLib, a.ORTOps = isolation, onnxRuntime, []string{name}
			}, log)
			r.awaitReady(t)
			for _, c := range []struct {
				model    string
				want     []float32 // for 1, 2, 3, 4
				proof    weftv1.BatchingProof
				obstacle string
			}{
				{"twice", []float32{2, 4, 6, 8}, weftv1.BatchingProof_BATCHING_PROOF_EXAMPLES, "there is no rule"},
				{"total", []float32{11, 12, 13, 14}, weftv1.BatchingProof_BATCHING_PROOF_NONE, ""},
				{"function", []float32{2, 4, 6, 8}, weftv1.BatchingProof_BATCHING_PROOF_EXAMPLES, "may have an operator of this"},
				{"plain", []float32{1, 2, 3, 4}, weftv1.BatchingProof_BATCHING_PROOF_STRUCTURE, ""},
			} {
				a, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(), weftest.Request(c.model, 1))
				if got := a.GetOutputs()["y"].GetFloatValues(); err != nil || !slices.Equal(got, c.want) {
					t.Errorf("%s answers %v, %v; want %v", c.model, got, err, c.want)
				}
				m, err := weftv1.NewModelServiceClient(r.conn).GetModel(t.Context(), &weftv1.GetModelRequest{Name: c.model})
				if err != nil {
					t.Fatal(err)
				}
				b := m.GetModel().GetVersions()[0].GetBatching()
				if b.GetProof() != c.proof || !strings.Contains(b.GetObstacle(), c.obstacle) {
					t.Errorf("%s: %v", c.model, b)
				}
			}
			told := log.Event("operator_library_named")
			if len(told) != 1 || weftest.Attr(told[0], "path").String() != name ||
				weftest.Attr(told[0], "sha256").String() != hex.EncodeToString(sum[:]) {
				t.Errorf("the log says %v", told)
			}
			if isolation == config.IsolateDevice && len(log.Event("worker_sandboxed")) == 0 {
				t.Logf("workers were not confined: %v", log.Lines("sandbox"))
			}
		})
	}
}

// TestUnusableOperators: a library that cannot be used is why models are not loaded, in either isolation.
func TestUnusableOperators(t *testing.T) {
	repository := t.TempDir()
	weighted(t, repository, "policy", 1, 2, 3, 4)
	library := weftest.Operators(t, "NEEDS_PYTHON")
	for _, isolation := range []config.Isolation{config.IsolateDevice, config.IsolateNone} {
		s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
		s.Isolation, s.ORTOps = isolation, []string{library}
		var out, errs strings.Builder
		err := Check(s, Checking{Load: true}, &out, &errs)
		if err == nil || !strings.Contains(errs.String(), "cannot use the operator library "+library+
			", named by --ort-ops: it needs Python") {
			t.Errorf("with isolation %s: %v\n%s", isolation, err, errs.String())
		}
	}
}
