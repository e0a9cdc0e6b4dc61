package proof_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// open opens a model file in ONNX Runtime.
func open(t *testing.T, file []byte) engine.Session {
	t.Helper()
	library, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(library); err != nil {
		t.Fatal(err)
	}
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", file)
	s, err := ort.Open(path, ort.Options{IntraOpThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// asked makes up the inputs of a request: values of every kind, so that among many each condition holds for some. like
// has the inputs that must be equal in a batch; nil: any do.
func asked(s *tensor.Signature, rng *rand.Rand, like []tensor.Tensor) []tensor.Tensor {
	inputs := make([]tensor.Tensor, len(s.Inputs))
	for i := range s.Inputs {
		in := &s.Inputs[i]
		if like != nil && in.BatchDim == tensor.NoBatch {
			inputs[i] = like[i]
			continue
		}
		x := tensor.Tensor{DType: in.DType, Shape: slices.Clone(in.Shape)}
		for d, size := range x.Shape {
			switch {
			case size != tensor.Unknown:
			case d == 0:
				x.Shape[d] = 1
			case like != nil:
				x.Shape[d] = like[i].Shape[d]
			default:
				x.Shape[d] = []int64{3, 30}[rng.IntN(2)]
			}
		}
		n, _ := x.Shape.Elements()
		scale := []float64{1, 1, 1, 1, 30, 1e4, 1e33, 1e-15}[rng.IntN(8)]
		special := rng.IntN(12)
		for k := range n {
			switch in.DType {
			case tensor.Bool:
				x.Data = append(x.Data, byte(rng.IntN(2)))
			case tensor.Int64:
				ints := []int64{-3, -1, 0, 1, 2, 5, 11, 77, 101, 1e6}
				x.Data = binary.LittleEndian.AppendUint64(x.Data, uint64(ints[rng.IntN(len(ints))]))
			default:
				v := rng.NormFloat64() * scale
				switch {
				case len(x.Shape) == 0:
					v = []float64{0, 0.5, -1, 1, 3, 200}[rng.IntN(6)]
				case special == 0 && k == 0:
					v = math.NaN()
				case special == 1 && k == 1:
					v = math.Inf(1)
				}
				x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(v)))
			}
		}
		inputs[i] = x
	}
	return inputs
}

// wrongTogether runs rows with the same values together and alone, and returns how many are answered otherwise.
func wrongTogether(t *testing.T, s engine.Session, signature *tensor.Signature, rows [][]tensor.Tensor) (wrong int) {
	t.Helper()
	run := func(inputs []tensor.Tensor, n int) []float32 {
		a, err := (&direct{session: s}).Run(t.Context(), proof.Request{Inputs: inputs, Rows: n})
		if err != nil {
			t.Fatal(err)
		}
		return weftest.Values(a.Outputs[0])
	}
	joined := slices.Clone(rows[0])
	for i := range joined {
		if signature.Inputs[i].BatchDim != tensor.NoBatch {
			joined[i].Shape = joined[i].Shape.With(0, int64(len(rows)))
			joined[i].Data = nil
			for _, row := range rows {
				joined[i].Data = append(joined[i].Data, row[i].Data...)
			}
		}
	}
	all := run(joined, len(rows))
	for k, row := range rows {
		alone := run(row, 1)
		got := all[k*len(alone):][:len(alone)]
		if !slices.EqualFunc(got, alone, func(g, w float32) bool {
			return g == w || g != g && w != w || math.Abs(float64(g-w)) <= 1e-5*math.Abs(float64(w))
		}) {
			wrong++
		}
	}
	return wrong
}

// hardToFind are the conditions that neither the graph nor made-up rows need show: an audit of live batches must.
var hardToFind = []string{"id is 77", "one row in a hundred", "one row in a thousand", "all negative", "tiny"}

// TestNoDependenceIsProven by structure, whether its rows can be followed or not.
func TestNoDependenceIsProven(t *testing.T) {
	none := dependence{mixing: mixer{name: "none", mix: "Neg(x)"}}
	for _, hidden := range []bool{false, true} {
		for _, g := range append(dependences(hidden), none) {
			e := &weftest.Engine{Declared: tensor.Signature{
				Inputs:  []tensor.Spec{weftest.Spec("input", tensor.Float32, tensor.Unknown, 4)},
				Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown, 4)},
			}, Answer: func(*tensor.Batch) error { return errOther }}
			found, err := proveFile(t, e, g.marshal(), batching(), &weftest.Log{})
			if err != nil || (found.Verdict.Proof == catalog.ProofStructure) != (g.mixing.name == "none") {
				t.Errorf("%s: %+v, %v", g.name(), found.Verdict, err)
			}
		}
	}
}

const dependenceVariable = "WEFT_DEPENDENT_ROWS"

// TestDependentRows proves models on ONNX Runtime whose rows depend on each other under some condition, and joins the
// rows of the models that are to be batched, with values that are proven. None is answered otherwise than alone, but
// under conditions that only an audit can find. WEFT_DEPENDENT_ROWS=seed,graphs draws as many of them as you like.
func TestDependentRows(t *testing.T) {
	seed, graphs := uint64(1), 150
	if testing.Short() || race.Enabled {
		graphs = 25
	}
	if long := os.Getenv(dependenceVariable); long != "" {
		if _, err := fmt.Sscanf(long, "%d,%d", &seed, &graphs); err != nil {
			t.Fatal(err)
		}
	}
	decided, refuted, late := map[catalog.Proof]int{}, 0, 0
	for i := range graphs {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		g := drawDependence(rng)
		t.Run(g.name(), func(t *testing.T) {
			file := g.marshal()
			s := open(t, file)
			found, err := proveFile(t, s, file, batching(), &weftest.Log{})
			if err != nil {
				t.Fatal(err)
			}
			v := found.Verdict
			decided[v.Proof]++
			for n := 0; n < 40 && v.Batched; n++ {
				like := asked(found.Signature, rng, nil)
				rows := make([][]tensor.Tensor, 24)
				for k := range rows {
					rows[k] = asked(found.Signature, rng, like)
				}
				value := proof.Value{Signature: found.Signature, Most: v.Most, Brought: found.Signature.Inputs[1:]}
				of := value.Prove(t.Context(), &direct{session: s}, 1, rows[:4])
				if of.Wrong != "" || !of.Shown {
					if of.Wrong != "" {
						refuted++
						break
					}
					continue
				}
				if wrong := wrongTogether(t, s, found.Signature, rows); wrong > 0 {
					if late++; !slices.Contains(hardToFind, g.condition.name) && !g.mixing.placed {
						t.Errorf("seed %d, %d: %d of %d answers are not what the row gets alone: %s", seed, i, wrong, len(rows),
							v.Reason)
					}
					break
				}
			}
		})
	}
	t.Logf(
		"seed %d: %d graphs, decided by %v; %d of them were found with the values of requests, and %d are left for audits",
		seed,
		graphs,
		decided,
		refuted,
		late,
	)
}
