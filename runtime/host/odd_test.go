package host_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// oddVariable asks for many odd signatures: seed,graphs.
const oddVariable = "WEFT_ODD_SIGNATURES"

const wave = 128 // requests

// TestOddSignatures serves models with odd signatures, and asks each 128 times at once, for some of its outputs. Every
// answer must be that of ONNX Runtime to the request alone, which computes it in memory of its own.
//
// It asks below the protocols and without processes of their own: a session gets its outputs in the same way there.
func TestOddSignatures(t *testing.T) {
	seed, graphs, requests := uint64(1), 60, wave
	switch asked := os.Getenv(oddVariable); {
	case asked != "":
		if _, err := fmt.Sscanf(asked, "%d,%d", &seed, &graphs); err != nil {
			t.Fatal(err)
		}
	case testing.Short() || race.Enabled:
		graphs, requests = 30, 32
	}
	rng := rand.New(rand.NewPCG(seed, 35))
	models, files := make([]*odd, graphs), make([][]byte, graphs)
	for i := range models {
		models[i] = newOdd(rng)
		files[i] = models[i].Marshal()
	}
	h, paths := serveFiles(t, files)
	var y oddTally
	for i, m := range models {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			v := h.Snapshot().Model(fmt.Sprintf("m%d", i)).Version(1)
			alone, err := ort.Open(paths[i], ort.Options{IntraOpThreads: 1})
			if err != nil {
				y.refused++
				if v.State == catalog.Ready {
					t.Errorf("it is served, and ONNX Runtime says %v", err)
				}
				return
			}
			defer alone.Close()
			if v.State != catalog.Ready {
				t.Fatalf("%v: %s", v.State, v.Cause)
			}
			var names []string
			for _, out := range v.Signature.Outputs {
				names = append(names, out.Name)
			}
			if !slices.Equal(names, m.outputs) {
				t.Fatalf("its outputs are %q, want %q", names, m.outputs)
			}
			y.served++
			if m.listed > len(names) {
				y.doubled++
			}
			if v.Batching.Batched {
				y.batched++
			}
			askOdd(t, m, alone, v, requests, func(c *catalog.Call) error { return h.Predict(t.Context(), c) }, &y)
		})
	}
	t.Logf("seed %d: %+v", seed, y)
	if y.served < graphs*8/10 || y.batched < graphs/4 || y.doubled < graphs/4 || y.shared == 0 || y.given == 0 {
		t.Errorf("of %d graphs too few say anything", graphs)
	}
}

// oddTally counts models, and answers.
type oddTally struct{ refused, served, batched, doubled, answers, given, failed, shared, wrong int }

// askOdd asks a model all requests at once.
func askOdd(t *testing.T, m *odd, alone *ort.Session, v *catalog.Version, requests int,
	predict func(*catalog.Call) error, y *oddTally,
) {
	t.Helper()
	calls := make([]*catalog.Call, requests)
	for i := range calls {
		calls[i] = oddRequest(t, m, v)
	}
	errs := askAll(calls, predict)
	b := tensor.NewBatch(v.Signature.MostInputs(), len(v.Signature.Outputs), nil)
	defer b.Free()
	for i, c := range calls {
		b.Copied = true
		if b.Feed(len(c.Inputs)); c.Alone() && c.Rows > 0 {
			y.given++
		}
		for k, in := range c.Inputs {
			if in.DType == tensor.Invalid {
				continue
			}
			copy(b.Input(k, in.DType, in.Shape, len(in.Data)), in.Data)
		}
		err := alone.Run(context.Background(), b)
		if (err != nil) != (errs[i] != nil) {
			t.Fatalf("request %d, %d rows: %v; alone %v", i, c.Rows, errs[i], err)
		}
		if y.answers++; err != nil {
			y.failed++
			continue
		}
		if c.Outcome.BatchRequests > 1 {
			y.shared++
		}
		for k, got := range c.Results {
			o := k
			if c.Wanted != nil {
				o = c.Wanted[k]
			}
			if want := b.Outputs[o]; !sameOdd(got, want) {
				y.wrong++
				t.Fatalf("request %d, %d rows, output %q: %v, alone %v (%s, %+v)", i, c.Rows, m.outputs[o], got, want,
					v.Batching.Reason, c.Outcome)
			}
		}
	}
}

func sameOdd(got, want tensor.Tensor) bool {
	return got.DType == want.DType && slices.Equal(got.Shape, want.Shape) && (bytes.Equal(got.Data, want.Data) ||
		got.DType == tensor.Float32 && sameAnswer(got, want))
}

// oddRequest makes up a request for some of a model's outputs, of no row now and then.
func oddRequest(t *testing.T, m *odd, v *catalog.Version) *catalog.Call {
	t.Helper()
	rng := m.rng
	rows := int64(m.rows)
	if rows == 0 {
		rows = []int64{0, 1, 1, 1, 1, 2, 3, 5}[rng.IntN(8)]
	}
	c := &catalog.Call{Version: v}
	brought := len(v.Signature.Inputs)
	if rng.IntN(2) == 0 {
		brought = v.Signature.MostInputs()
	}
	for i := range brought {
		in, optional := v.Signature.Takes(i)
		if optional && rng.IntN(3) == 0 {
			c.Inputs = append(c.Inputs, tensor.Tensor{})
			continue
		}
		x := tensor.Tensor{DType: in.DType, Shape: slices.Clone(in.Shape)}
		for d, size := range x.Shape {
			if size == tensor.Unknown {
				x.Shape[d] = rows
			}
		}
		n, _ := x.Shape.Elements()
		for range n {
			x.Data = appendOdd(x.Data, in.DType, rng)
		}
		c.Inputs = append(c.Inputs, x)
	}
	var err error
	if c.Rows, err = v.Signature.Rows(c.Inputs); err != nil {
		t.Fatal(err)
	}
	if rng.IntN(2) == 0 {
		c.Wanted = rng.Perm(len(m.outputs))[:1+rng.IntN(len(m.outputs))]
	}
	return c
}

// appendOdd appends an element, which says of itself where it is from as far as its type allows.
func appendOdd(data []byte, d tensor.DType, rng *rand.Rand) []byte {
	switch n := rng.IntN(1 << 20); d {
	case tensor.String:
		return tensor.AppendString(data, []byte(strings.Repeat("é", n%4)+strconv.Itoa(n)))
	case tensor.Bool:
		return append(data, byte(n%2))
	case tensor.Float16:
		return binary.LittleEndian.AppendUint16(data, tensor.Float16Bits(float32(n)/1024))
	case tensor.Float32, tensor.Float64:
		e, _ := tensor.ParseElement(d, fmt.Sprint(float64(n)/64-1000))
		return append(data, e...)
	default:
		return append(data, binary.LittleEndian.AppendUint64(nil, uint64(n))[:d.Size()]...)
	}
}

// serveFiles serves each file as a model of its own: m0, m1 and so on.
func serveFiles(t *testing.T, files [][]byte) (*host.Host, []string) {
	t.Helper()
	var listing modelrepo.Listing
	var paths []string
	root := t.TempDir()
	for i, file := range files {
		name := fmt.Sprintf("m%d", i)
		dir := filepath.Join(root, name, "1")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		v := modelrepo.Version{Number: 1, Dir: dir, Path: filepath.Join(dir, modelrepo.ModelFile)}
		if err := os.WriteFile(v.Path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, v.Path)
		listing.Models = append(listing.Models, modelrepo.Model{
			Name: name, Manifest: modelrepo.Defaults(), Versions: []modelrepo.Version{v},
			Selected: []modelrepo.Version{v},
		})
	}
	return onnxHost(t, listing), paths
}

// askAll makes calls at the same time, and returns how each ended.
func askAll(calls []*catalog.Call, predict func(*catalog.Call) error) []error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range calls {
		wg.Go(func() {
			<-start
			errs[i] = predict(calls[i])
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// sameAnswer allows for rounding alone.
func sameAnswer(got, want tensor.Tensor) bool {
	if len(got.Data) != len(want.Data) {
		return false
	}
	g, w := values(got), values(want)
	for k := range w {
		far := math.Abs(float64(g[k]) - float64(w[k]))
		switch {
		case g[k] == w[k], g[k] != g[k] && w[k] != w[k]:
		case far <= 1e-5*math.Abs(float64(w[k])):
		default:
			return false
		}
	}
	return true
}
