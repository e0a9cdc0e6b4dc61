package host_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// warmupFile puts an input for warm-up beside the versions of m, which is put on disk, and returns the model's version
// directory.
func (w *world) warmupFile(file string, values ...float32) {
	w.t.Helper()
	repository := w.t.TempDir()
	dir := filepath.Join(repository, "m", "1")
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(filepath.Join(repository, "m", "warmup"), 0o755),
		os.WriteFile(filepath.Join(repository, "m", "warmup", file), data, 0o600)); err != nil {
		w.t.Fatal(err)
	}
	m := &w.listing.Models[len(w.listing.Models)-1]
	for _, list := range [][]modelrepo.Version{m.Versions, m.Selected} {
		list[0].Dir = dir // the engine goes by the path
	}
}

// request is one with the input x.
func request(rows, count int, in modelrepo.WarmupInput) modelrepo.Warmup {
	return modelrepo.Warmup{BatchSize: rows, Count: count, Inputs: map[string]modelrepo.WarmupInput{"x": in}}
}

// TestWarmupRequestsAreRun before a version is ready, as often and with as many rows as they say.
func TestWarmupRequestsAreRun(t *testing.T) {
	var seen [][]float32 // the rows of each run
	f := overRows(2, func(rows [][]float32) error {
		seen = append(seen, slices.Concat(rows...))
		return nil
	})
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) {
		m.Batching.MaxBatchSize = 4
		m.Warmup = []modelrepo.Warmup{
			request(2, 3, modelrepo.WarmupInput{Shape: tensor.Shape{2}, Data: modelrepo.ZeroData}),
			request(3, 1, modelrepo.WarmupInput{Shape: tensor.Shape{2}, File: "row"}),
			request(9, 1, modelrepo.WarmupInput{Shape: tensor.Shape{1, 2}, File: "row"}),
			request(4, 1, modelrepo.WarmupInput{Shape: tensor.Shape{2}, Data: modelrepo.RandomData}),
		}
	})
	w.warmupFile("row", 7, -1)
	if v := w.load("m"); v.State != catalog.Ready {
		t.Fatal(v.Fault)
	}
	zeros := []float32{0, 0, 0, 0}
	want := [][]float32{zeros, zeros, zeros, {7, -1, 7, -1, 7, -1}, {7, -1}}
	if len(seen) < 6 {
		t.Fatalf("the model has seen %v", seen)
	}
	if diff := cmp.Diff(want, seen[len(seen)-6:len(seen)-1]); diff != "" {
		t.Errorf("the last runs before it was ready (-want +got):\n%s", diff)
	}
	if random := seen[len(seen)-1]; len(random) != 8 || slices.Compare(random[:2], random[2:4]) == 0 {
		t.Errorf("random rows %v", random)
	}
}

// TestLargeWarmupRequestsAreSplit as requests are.
func TestLargeWarmupRequestsAreSplit(t *testing.T) {
	f := perRow(2, double)
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) {
		m.Batching.MaxBatchSize = 4
		m.Warmup = []modelrepo.Warmup{request(9, 1, modelrepo.WarmupInput{Shape: tensor.Shape{2}})}
	})
	if v := w.load("m"); v.State != catalog.Ready {
		t.Fatal(v.Fault)
	}
	runs := f.Forget()
	rows := 0
	for _, n := range runs[len(runs)-3:] {
		rows += n
	}
	if rows != 9 || slices.Max(runs) > 4 {
		t.Errorf("the last runs have %v rows", runs)
	}
}

// TestWarmupRequestsThatFail are faults of the version, by their names.
func TestWarmupRequestsThatFail(t *testing.T) {
	in := func(in modelrepo.WarmupInput) []modelrepo.Warmup {
		w := request(1, 1, in)
		w.Name = "a b"
		return []modelrepo.Warmup{w}
	}
	for _, test := range []struct {
		requests []modelrepo.Warmup
		want     string
	}{
		{in(modelrepo.WarmupInput{Shape: tensor.Shape{2}, File: "bad"}), "no such row"},
		{in(modelrepo.WarmupInput{Shape: tensor.Shape{3}}), "inputs[\"x\"].shape"},
		{
			in(modelrepo.WarmupInput{Shape: tensor.Shape{2}, DType: modelrepo.DType(tensor.Int8)}),
			`input "x": its elements are int8, but the model expects fp32`,
		},
		{in(modelrepo.WarmupInput{Shape: tensor.Shape{1, 1, 2}}), "inputs[\"x\"].shape"},
		{in(modelrepo.WarmupInput{Shape: tensor.Shape{2}, File: "none"}), "warmup/none does not exist; put the input there"},
		{in(modelrepo.WarmupInput{Shape: tensor.Shape{2}, File: "."}), "warmup is not a regular file"},
		{
			in(modelrepo.WarmupInput{Shape: tensor.Shape{1}, File: "bad"}),
			"asks for 1 elements of 4 bytes, got 8 bytes; correct the file",
		},
		{
			[]modelrepo.Warmup{{Name: "a b", BatchSize: 1, Count: 1, Inputs: map[string]modelrepo.WarmupInput{
				"x": {Shape: tensor.Shape{2}}, "z": {},
			}}},
			`the model has no input "z", only x`,
		},
		{[]modelrepo.Warmup{{Name: "a b", BatchSize: 1, Count: 1}}, `it has no input "x"`},
	} {
		f := perRow(2, func(row []float32) error {
			if row[0] == 666 {
				return errors.New("no such row")
			}
			return nil
		})
		w := newWorld(t, 1)
		w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Warmup = test.requests })
		w.warmupFile("bad", 666, 0)
		v := w.load("m")
		if v.State != catalog.Failed || !strings.Contains(v.Fault.Error(), `warm-up request "a b": `) ||
			!strings.Contains(v.Fault.Error(), test.want) {
			t.Errorf("state %v, fault %v\nwant %s", v.State, v.Fault, test.want)
		}
		if f.Closed() != 1 {
			t.Errorf("the session was closed %d times", f.Closed())
		}
	}
}
