package tensor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// random makes up a tensor; strings differ in length.
func random(rng *rand.Rand, dtype tensor.DType, shape tensor.Shape) tensor.Tensor {
	t := tensor.Tensor{DType: dtype, Shape: shape}
	count, _ := shape.Elements()
	for range count {
		if dtype == tensor.String {
			t.Data = tensor.AppendString(t.Data, []byte("abcde")[:rng.IntN(5)])
			continue
		}
		for range dtype.Size() {
			t.Data = append(t.Data, byte(rng.Uint32()))
		}
	}
	return t
}

// at returns the element of a tensor at a place.
func at(t tensor.Tensor, place tensor.Shape) string {
	index := int64(0)
	for d, size := range t.Shape {
		index = index*size + place[d]
	}
	return elements(t)[index]
}

// places calls f with every place within the shape, in row-major order.
func places(shape tensor.Shape, f func(place tensor.Shape)) {
	n, _ := shape.Elements()
	for flat := range n {
		place := make(tensor.Shape, len(shape))
		for rest, d := flat, len(shape)-1; d >= 0; d-- {
			place[d], rest = rest%shape[d], rest/shape[d]
		}
		f(place)
	}
}

func TestJoinPadded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, dtype := range []tensor.DType{tensor.Uint8, tensor.Float32, tensor.Int64, tensor.String} {
		pad := random(rng, dtype, tensor.Shape{}).Data
		for _, base := range []tensor.Shape{{0, 0}, {2, 0, 3, 0}, {0, 3, 0, 2}, {3, 0, 0}, {0, 0, 0}} {
			for dim := range base {
				for axis := range base {
					if dim == axis {
						continue
					}
					t.Run(fmt.Sprintf("%v%v along %d padded in %d", dtype, base, dim, axis), func(t *testing.T) {
						joinPadded(t, rng, dtype, base, dim, tensor.Padding{Dim: axis, Size: 5, Element: pad})
					})
				}
			}
		}
	}
}

// joinPadded compares with coordinates: each element of the result is looked up where it comes from, or is padding.
func joinPadded(t *testing.T, rng *rand.Rand, dtype tensor.DType, base tensor.Shape, dim int, p tensor.Padding) {
	t.Helper()
	var ranges []tensor.RowRange
	type origin struct {
		source tensor.Tensor
		row    int64
	}
	var from []origin
	for _, length := range []int64{2, 5, 1, 3} {
		rows := rng.IntN(3) + 1
		first := rng.IntN(rows)
		r := tensor.RowRange{
			Tensor: random(rng, dtype, base.With(dim, int64(rows)).With(p.Dim, length)), First: first,
			Rows: rows - first,
		}
		ranges = append(ranges, r)
		for k := range r.Rows {
			from = append(from, origin{r.Tensor, int64(first + k)})
		}
	}
	got := tensor.Tensor{DType: dtype, Shape: base.With(dim, int64(len(from))).With(p.Dim, p.Size)}
	got.Data = make([]byte, tensor.PaddedSize(dim, ranges, p))
	tensor.JoinPadded(got.Data, dim, ranges, p)
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	apart := make([]byte, len(got.Data))
	tensor.JoinPadded(apart, dim, scattered(rng, ranges), p)
	if diff := cmp.Diff(got.Data, apart); diff != "" {
		t.Errorf("of pieces (-of whole tensors +got):\n%s", diff)
	}
	padding := elements(tensor.Tensor{DType: dtype, Data: p.Element})[0]
	var want []string
	places(got.Shape, func(place tensor.Shape) {
		f := from[place[dim]]
		if place[p.Dim] >= f.source.Shape[p.Dim] {
			want = append(want, padding)
			return
		}
		want = append(want, at(f.source, place.With(dim, f.row)))
	})
	if diff := cmp.Diff(want, elements(got)); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
}

func TestBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, dtype := range []tensor.DType{tensor.Float16, tensor.Int64, tensor.String} {
		for _, shape := range []tensor.Shape{{}, {4}, {3, 4}, {3, 1, 4}, {2, 3, 4, 2}, {0, 3}} {
			for range 20 {
				b := tensor.Box{
					Tensor: random(rng, dtype, shape), First: make(tensor.Shape, len(shape)),
					Extent: make(tensor.Shape, len(shape)),
				}
				for d, size := range shape {
					b.First[d] = rng.Int64N(size + 1)
					b.Extent[d] = rng.Int64N(size - b.First[d] + 1)
				}
				got := b.Copy()
				if err := got.Check(); err != nil {
					t.Fatal(err)
				}
				var want []string
				places(b.Extent, func(place tensor.Shape) {
					for d, first := range b.First {
						place[d] += first
					}
					want = append(want, at(b.Tensor, place))
				})
				if diff := cmp.Diff(want, elements(got)); diff != "" {
					t.Fatalf("%v%v from %v on %v (-want +got):\n%s", dtype, shape, b.First, b.Extent, diff)
				}
			}
		}
	}
}
