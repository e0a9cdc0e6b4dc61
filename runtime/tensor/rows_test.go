package tensor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// elements splits a tensor into its elements, so that the tests can move rows one element at a time.
func elements(t tensor.Tensor) []string {
	var all []string
	for rest := t.Data; len(rest) > 0; {
		var e []byte
		if t.DType == tensor.String {
			e, rest, _ = tensor.NextString(rest)
		} else {
			e, rest = rest[:t.DType.Size()], rest[t.DType.Size():]
		}
		all = append(all, string(e))
	}
	return all
}

// joinSlowly is JoinRows with coordinates: for every element of the result it looks up where it comes from.
func joinSlowly(dim int, ranges []tensor.RowRange) []string {
	var from []struct{ source, row int }
	for i, r := range ranges {
		for k := range r.Rows {
			from = append(from, struct{ source, row int }{i, r.First + k})
		}
	}
	shape := ranges[0].Shape.With(dim, int64(len(from)))
	n, _ := shape.Elements()
	var joined []string
	for flat := range n {
		at := make([]int64, len(shape))
		for rest, d := flat, len(shape)-1; d >= 0; d-- {
			at[d], rest = rest%shape[d], rest/shape[d]
		}
		f := from[at[dim]]
		at[dim] = int64(f.row)
		source, index := ranges[f.source], int64(0)
		for d, size := range source.Shape {
			index = index*size + at[d]
		}
		joined = append(joined, elements(source.Tensor)[index])
	}
	return joined
}

func TestJoinRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dtype := range []tensor.DType{tensor.Uint8, tensor.Float16, tensor.Float32, tensor.Int64, tensor.String} {
		for _, shape := range []tensor.Shape{{5}, {5, 3}, {3, 5}, {2, 5, 3}, {2, 2, 5}, {5, 0}, {0, 5, 2}, {2, 5, 0}} {
			for dim := range shape {
				if shape[dim] != 5 {
					continue
				}
				t.Run(fmt.Sprintf("%v%v along %d", dtype, shape, dim), func(t *testing.T) {
					var ranges []tensor.RowRange
					rows := int64(0)
					for _, n := range []int64{5, 1, 4, 2} {
						source := tensor.Tensor{DType: dtype, Shape: shape.With(dim, n)}
						count, _ := source.Shape.Elements()
						for range count {
							if dtype == tensor.String {
								word := make([]byte, rng.IntN(5))
								for i := range word {
									word[i] = byte('a' + rng.IntN(26))
								}
								source.Data = tensor.AppendString(source.Data, word)
								continue
							}
							for range dtype.Size() {
								source.Data = append(source.Data, byte(rng.Uint32()))
							}
						}
						first := rng.IntN(int(n))
						r := tensor.RowRange{Tensor: source, First: first, Rows: 1 + rng.IntN(int(n)-first)}
						ranges, rows = append(ranges, r), rows+int64(r.Rows)
					}

					joined := tensor.Tensor{
						DType: dtype, Shape: shape.With(dim, rows),
						Data: make([]byte, tensor.JoinedSize(dim, ranges)),
					}
					tensor.JoinRows(joined.Data, dim, ranges)
					if err := joined.Check(); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(joinSlowly(dim, ranges), elements(joined)); diff != "" {
						t.Errorf("joined elements (-want +got):\n%s", diff)
					}

					apart := make([]byte, len(joined.Data))
					tensor.JoinRows(apart, dim, scattered(rng, ranges))
					if diff := cmp.Diff(joined.Data, apart); diff != "" {
						t.Errorf("joined of pieces (-of whole tensors +got):\n%s", diff)
					}

					one := ranges[2].Copy(dim)
					if err := one.Check(); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(joinSlowly(dim, ranges[2:3]), elements(one)); diff != "" {
						t.Errorf("copied elements (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// TestJoinRowsOfHugeShapesWithoutElements takes no time, whatever sizes a shape claims next to one of 0.
func TestJoinRowsOfHugeShapesWithoutElements(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.String} {
		for _, shape := range []tensor.Shape{{1 << 61, 2, 0}, {0, 2, 1 << 61}, {1 << 61, 0, 1}} {
			all := tensor.Tensor{DType: dtype, Shape: shape}
			if err := all.Check(); err != nil {
				t.Fatal(err)
			}
			r := tensor.RowRange{Tensor: all, Rows: int(min(1, shape[1]))}
			joined := r.Copy(1)
			if want := shape.With(1, int64(r.Rows)); len(joined.Data) != 0 || !slices.Equal(joined.Shape, want) {
				t.Errorf("%v %v: %v, %d bytes", dtype, shape, joined.Shape, len(joined.Data))
			}
			if p := (tensor.Padding{Dim: 2, Size: shape[2], Element: make([]byte, 4)}); shape[1] > 0 {
				tensor.JoinPadded(make([]byte, tensor.PaddedSize(1, []tensor.RowRange{r}, p)), 1, []tensor.RowRange{r}, p)
			}
		}
	}
}
