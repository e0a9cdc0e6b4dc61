package tensor_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// scatter returns a tensor with the same data in pieces, some of them empty. Strings stay whole.
func scatter(rng *rand.Rand, t tensor.Tensor) tensor.Tensor {
	if t.DType == tensor.String {
		return t
	}
	t.Pieces = [][]byte{}
	for rest := t.Data; len(rest) > 0; {
		n := rng.IntN(min(len(rest), 12) + 1)
		t.Pieces = append(t.Pieces, slices.Clone(rest[:n]))
		rest = rest[n:]
	}
	t.Data = nil
	return t
}

func scattered(rng *rand.Rand, ranges []tensor.RowRange) []tensor.RowRange {
	ranges = slices.Clone(ranges)
	for i := range ranges {
		ranges[i].Tensor = scatter(rng, ranges[i].Tensor)
	}
	return ranges
}

// TestPieces: whatever is asked of a tensor in pieces is what it is of the whole one, and copies lie in one piece.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	signature := &tensor.Signature{Inputs: []tensor.Spec{{BatchDim: tensor.NoBatch}}}
	for _, shape := range []tensor.Shape{{}, {7}, {0, 3}, {5, 3}, {40, 30}} {
		whole := random(rng, tensor.Int16, shape)
		apart := scatter(rng, whole)
		if err := apart.Check(); err != nil {
			t.Error(err)
		}
		copied := make([]byte, apart.Size())
		apart.CopyTo(copied)
		if !bytes.Equal(copied, whole.Data) {
			t.Errorf("%v: %v was copied, want %v", shape, copied, whole.Data)
		}
		if diff := cmp.Diff(whole.Clone(), apart.Clone()); diff != "" {
			t.Errorf("%v: a copy (-of the whole +got):\n%s", shape, diff)
		}
		if a, b := whole.RowBytes(tensor.NoBatch, 0), apart.RowBytes(tensor.NoBatch, 0); a != b {
			t.Errorf("%v: a row has %d bytes, want %d", shape, b, a)
		}
		key := func(of tensor.Tensor) string { return string(signature.Key(nil, []tensor.Tensor{of})) }
		if key(whole) != key(apart) {
			t.Errorf("%v: its key differs", shape)
		}
		for range apart.Runs() { // which may be left
			break
		}
		apart.Pieces = apart.Pieces[:len(apart.Pieces)/2]
		if err := apart.Check(); apart.Size() < len(whole.Data) && err == nil {
			t.Errorf("%v: pieces are missing, and nobody says so", shape)
		}
	}
}
