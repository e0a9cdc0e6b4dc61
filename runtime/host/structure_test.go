package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// addFile is add for a version with a file: an engine written in Go runs it, whatever the file says.
func (w *world) addFile(name string, graph []byte, engine any, change func(*modelrepo.Manifest)) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), modelrepo.ModelFile)
	if err := os.WriteFile(path, graph, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.add(name, 1, engine, change)
	m := &w.listing.Models[len(w.listing.Models)-1]
	m.Versions[0].Path, m.Selected[0].Path = path, path
	w.engine(path, engine)
}

// doubling is a graph x [?, 3] → y [?, 3] whose rows are independent; mixing one whose rows are not.
func doubling() []byte {
	g := onnxgraph.New("doubling")
	g.Input("x", onnxgraph.Float, "batch", 3)
	g.Node("Add", []string{"x", "x"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 3).Marshal()
}

func mixing() []byte {
	g := onnxgraph.New("mixing")
	g.Input("x", onnxgraph.Float, "batch", 3)
	g.Node("ReduceMean", []string{"x"}, []string{"mean"}, onnxgraph.IntsAttr("axes", 0))
	g.Node("Sub", []string{"x", "mean"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 3).Marshal()
}

// hidden is a graph whose rows are independent, which no rule can prove.
func hidden() []byte {
	g := onnxgraph.New("hidden")
	g.InitInt64s("first", nil, 0)
	g.Input("x", onnxgraph.Float, "batch", 3)
	g.Node("SequenceConstruct", []string{"x"}, []string{"sequence"})
	g.Node("SequenceAt", []string{"sequence", "first"}, []string{"same"})
	g.Node("Add", []string{"same", "same"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 3).Marshal()
}

// TestProofByStructure: a proof by the graph needs no examples, but they may deny it for differences that rounding
// cannot explain.
func TestProofByStructure(t *testing.T) {
	off := func(by float32) *fake {
		return overRows(3, func(rows [][]float32) error {
			for _, r := range rows {
				_ = double(r)
				if len(rows) > 1 {
					r[0] *= 1 + by
				}
			}
			return nil
		})
	}
	for name, test := range map[string]struct {
		graph    []byte
		model    *fake
		change   func(*modelrepo.Manifest)
		proof    catalog.Proof
		most     int
		reason   string
		obstacle string
	}{
		"as it says": {
			graph: doubling(), model: perRow(3, double), proof: catalog.ProofStructure, most: 64,
			reason: "proven harmless by structure: ",
		},
		"rounding": {
			graph: doubling(), model: off(5e-5), proof: catalog.ProofStructure, most: 64,
			reason: "largest difference 5e-05",
		},
		"beyond rounding": {
			graph: doubling(), model: off(0.1), proof: catalog.ProofNone, most: 1,
			reason: `output "y" of a row differs by 0.0`,
		},
		"a batch fails": {graph: doubling(), model: overRows(3, func(rows [][]float32) error {
			if len(rows) > 8 {
				return errors.New("too many")
			}
			return nil
		}), proof: catalog.ProofNone, most: 1, reason: "a batch of 16 rows fails: too many"},
		"nothing made up is taken": {
			graph: doubling(), model: perRow(3, func([]float32) error { return errors.New("not for me") }),
			proof: catalog.ProofStructure, most: 64, reason: "no batch was compared, because the model fails on " +
				"made-up inputs even for one row: not for me",
		},
		"one row is too dear": {
			graph: doubling(), model: slowly(perRow(3, double)),
			change: func(m *modelrepo.Manifest) {
				m.Batching.MaxBatchCost = config.Duration(100 * time.Microsecond)
			}, proof: catalog.ProofStructure, most: 1,
			reason: "so its rows are run one by one; they are proven independent by structure",
		},
		"a graph that mixes": {
			graph: mixing(), model: perRow(3, double), proof: catalog.ProofNone, most: 1,
			reason: "the graph lets rows meet at ReduceMean", obstacle: "ReduceMean",
		},
		"an operator without a rule": {
			graph: hidden(), model: perRow(3, double), proof: catalog.ProofExamples,
			most: 64, reason: "proven harmless by examples", obstacle: "SequenceConstruct",
		},
		"no graph": {
			graph: []byte("nonsense"), model: perRow(3, double), proof: catalog.ProofExamples, most: 64,
			obstacle: "the file cannot be read for its structure: ",
		},
		"on": {
			graph: doubling(), model: perRow(3, double),
			change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn },
			proof:  catalog.ProofTrusted, most: 64, reason: "mode is on",
		},
		"off": {
			graph: doubling(), model: perRow(3, double),
			change: func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff }, most: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.addFile("m", test.graph, test.model, test.change)
			v := w.load("m")
			b := v.Batching
			if v.State != catalog.Ready || b.Proof != test.proof || b.MaxBatchSize != test.most ||
				b.Batched != (test.most > 1) {
				t.Errorf("state %v %s: batched %v up to %d by %q", v.State, v.Cause, b.Batched, b.MaxBatchSize, b.Proof)
			}
			if !strings.Contains(b.Reason, test.reason) || !strings.Contains(b.Obstacle, test.obstacle) ||
				(b.Obstacle == "") != (test.obstacle == "") && test.proof != catalog.ProofNone {
				t.Errorf("reason %q, want ...%s...\nobstacle %q, want ...%s...", b.Reason, test.reason, b.Obstacle,
					test.obstacle)
			}
			if strings.Contains(b.Obstacle+b.Reason, string(filepath.Separator)+"tmp") {
				t.Errorf("the metadata tell a path: %q %q", b.Reason, b.Obstacle)
			}
		})
	}
}

// TestStructureNeedsNoExamples: a version whose graph proves everything is warmed up, and nothing else is run.
func TestStructureNeedsNoExamples(t *testing.T) {
	proven, unproven := perRow(3, double), perRow(3, double)
	w := newWorld(t, 1)
	w.addFile("proven", doubling(), proven, small)
	w.addFile("unproven", hidden(), unproven, small)
	w.load("proven")
	if a, b := len(proven.Forget()), len(unproven.Forget()); a != 12 || b < 50 {
		t.Errorf("%d runs with a proof by structure, %d without; want 12 and many more", a, b)
	}
}

// TestStructureFindsTheRowsOfOutputs where no example can: only one size is allowed, and no name shows it.
func TestStructureFindsTheRowsOfOutputs(t *testing.T) {
	g := onnxgraph.New("turned")
	g.Input("x", onnxgraph.Float, nil, 4) // a name would be found in the output, too
	g.Node("Transpose", []string{"x"}, []string{"y"}, onnxgraph.IntsAttr("perm", 1, 0))
	g.Output("y", onnxgraph.Float, nil, nil)
	l := onnxModel(t, g.Marshal())
	b := &l.Models[0].Manifest.Batching
	b.MaxBatchSize, b.AllowedBatchSizes = 8, []int{8}
	h := onnxHost(t, l)
	v := h.Snapshot().Model("m").Version(1)
	if v.State != catalog.Ready || v.Batching.Proof != catalog.ProofStructure || v.Signature.Outputs[0].BatchDim != 1 {
		t.Fatalf("state %v %s, rows in dimension %d, %+v", v.State, v.Cause, v.Signature.Outputs[0].BatchDim,
			v.Batching)
	}
	call := ask(v, 2, 1, 2, 3, 4, 5, 6, 7, 8)
	if err := h.Predict(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if got := values(call.Results[0]); !slices.Equal(got, []float32{1, 5, 2, 6, 3, 7, 4, 8}) {
		t.Errorf("got %v", got)
	}
}
