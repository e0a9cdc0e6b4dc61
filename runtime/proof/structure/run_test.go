package structure_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// initialise loads the library that `make setup` fetched.
func initialise(t testing.TB) {
	t.Helper()
	path, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(path); err != nil {
		t.Fatal(err)
	}
}

var runTypes = map[onnxgraph.DType]tensor.DType{
	onnxgraph.Float: tensor.Float32, onnxgraph.Double: tensor.Float64, onnxgraph.Float16: tensor.Float16,
	onnxgraph.Int64: tensor.Int64,
	onnxgraph.Int32: tensor.Int32, onnxgraph.Uint8: tensor.Uint8, onnxgraph.Int8: tensor.Int8,
	onnxgraph.Bool:   tensor.Bool,
	onnxgraph.String: tensor.String,
	onnxgraph.Uint16: tensor.Uint16, onnxgraph.Int16: tensor.Int16, onnxgraph.Uint32: tensor.Uint32,
	onnxgraph.Uint64: tensor.Uint64,
}

// How the numbers of a row are drawn.
type palette int

const (
	ordinary palette = iota
	nans
	infinities
	huge
	negatives
	zeros
	palettes
)

// element draws one element. Integers stay small, because they choose: an index out of bounds fails a run, which is no
// wrong answer.
func element(rng *rand.Rand, dtype onnxgraph.DType, p palette) []byte {
	switch dtype {
	case onnxgraph.Float, onnxgraph.Double, onnxgraph.Float16:
		f := rng.NormFloat64()
		switch {
		case p == nans && rng.IntN(2) == 0:
			f = math.NaN()
		case p == infinities && rng.IntN(2) == 0:
			f = math.Inf(rng.IntN(2)*2 - 1)
		case p == huge:
			f *= 1e4
			if dtype != onnxgraph.Float16 {
				f *= math.Pow(10, float64(rng.IntN(30)))
			}
		case p == negatives:
			f = -100 * math.Abs(f)
		case p == zeros:
			f = 0
		}
		return sketch.Encoded(dtype, strconv.FormatFloat(f, 'g', -1, 64))
	case onnxgraph.Int64:
		if p == negatives || p == huge {
			return sketch.Encoded(dtype, strconv.Itoa(rng.IntN(14)-4))
		}
		return sketch.Encoded(dtype, strconv.Itoa(rng.IntN(3)))
	case onnxgraph.Int32:
		if p == negatives || p == huge {
			return sketch.Encoded(dtype, []string{"-2147483648", "-1", "0", "65536", "2147483647"}[rng.IntN(5)])
		}
		return sketch.Encoded(dtype, strconv.Itoa(1+rng.IntN(2)))
	case onnxgraph.Bool:
		return []byte{byte(rng.IntN(2))}
	case onnxgraph.String:
		return tensor.AppendString(nil, []byte(string(rune('a'+rng.IntN(3)))))
	case onnxgraph.Uint8, onnxgraph.Int8:
		if p == ordinary {
			return []byte{byte(rng.IntN(7))}
		}
		return []byte{byte(rng.IntN(256))}
	default:
		bits := rng.Uint64()
		if p == ordinary {
			bits %= 7
		}
		return binary.LittleEndian.AppendUint64(nil, bits)[:runTypes[dtype].Size()]
	}
}

// takesEmpty are operators that ONNX Runtime runs where tensors have no entries. Others end its process, by a division
// by zero: TopK, Scan, Einsum, SkipLayerNormalization, and recurrent networks at least.
var takesEmpty = regexp.MustCompile("^(Abs|Add|Cast|Ceil|Concat|Constant|ConstantOfShape|CumSum|Equal|Erf|Exp|Expand|" +
	"Flatten|Floor|Gather|GatherElements|Gemm|Greater|Identity|If|LeakyRelu|Less|Loop|MatMul|Max|Min|Mul|Neg|Not|Pad|" +
	"Range|ReduceL1|ReduceL2|ReduceMean|ReduceProd|ReduceSum|Relu|Reshape|ScatterElements|Shape|Sigmoid|Sign|Size|" +
	"Slice|Softmax|Split|Sqrt|Squeeze|Sub|Sum|Tanh|Tile|Transpose|Unsqueeze|Where)$")

// trial is a session on a sketch, and sizes for its open dimensions.
type trial struct {
	s       *sketch.Model
	session *ort.Session
	rng     *rand.Rand
	sizes   map[string]int64
}

// openModel opens a model in ONNX Runtime and for proof.
func openModel(t testing.TB, model []byte) (*ort.Session, *structure.Model, error) {
	t.Helper()
	path := weftest.WriteFile(t, t.TempDir(), "model.onnx", model)
	m, err := structure.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	session, err := ort.Open(path, ort.Options{IntraOpThreads: 1})
	return session, m, err
}

func (r *trial) shape(in sketch.Input) tensor.Shape {
	shape := tensor.Shape{}
	for _, d := range in.Dims {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			n = 1
			if d != "N" {
				if _, drawn := r.sizes[d]; !drawn {
					r.sizes[d] = []int64{0, 1, 1, 2, 2, 3, 3, 4, 4, 7}[r.rng.IntN(10)]
					if r.sizes[d] == 0 && slices.ContainsFunc(r.s.Ops, func(op string) bool {
						return !takesEmpty.MatchString(op)
					}) {
						r.sizes[d] = 1
					}
				}
				n = r.sizes[d]
			}
		}
		shape = append(shape, n)
	}
	return shape
}

// draw makes one row of each input, or the whole of one without rows where share is nil.
func (r *trial) draw(p palette, share []tensor.Tensor) []tensor.Tensor {
	row := make([]tensor.Tensor, len(r.s.Inputs))
	for i, in := range r.s.Inputs {
		if share != nil && in.Axis < 0 {
			row[i] = share[i]
			continue
		}
		t := tensor.Tensor{DType: runTypes[in.DType], Shape: r.shape(in)}
		n, _ := t.Shape.Elements()
		for range n {
			t.Data = append(t.Data, element(r.rng, in.DType, p)...)
		}
		row[i] = t
	}
	return row
}

// run joins rows and runs them.
func (r *trial) run(members ...[]tensor.Tensor) ([]tensor.Tensor, error) {
	sig := r.session.Signature()
	b := tensor.NewBatch(len(sig.Inputs), len(sig.Outputs), nil)
	defer b.Free()
	for i, in := range r.s.Inputs {
		at := sig.Input(in.Name)
		if at < 0 {
			continue // nothing uses it
		}
		whole := members[0][i]
		if in.Axis >= 0 {
			parts := make([]tensor.Tensor, 0, len(members))
			for _, m := range members {
				parts = append(parts, m[i])
			}
			whole = joinRows(parts, in.Axis)
		}
		copy(b.Input(at, whole.DType, whole.Shape, len(whole.Data)), whole.Data)
	}
	if err := r.session.Run(context.Background(), b); err != nil {
		return nil, err
	}
	out := make([]tensor.Tensor, 0, len(b.Outputs))
	for _, o := range b.Outputs {
		out = append(out, tensor.Tensor{
			DType: o.DType, Shape: append(tensor.Shape{}, o.Shape...),
			Data: bytes.Clone(o.Data),
		})
	}
	return out, nil
}

func extent(dims tensor.Shape) int {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

// joinRows concatenates tensors along an axis.
func joinRows(parts []tensor.Tensor, axis int) tensor.Tensor {
	out := tensor.Tensor{DType: parts[0].DType, Shape: parts[0].Shape.With(axis, 0)}
	var ranges []tensor.RowRange
	for _, p := range parts {
		ranges = append(ranges, tensor.RowRange{Tensor: p, Rows: int(p.Shape[axis])})
		out.Shape[axis] += p.Shape[axis]
	}
	out.Data = make([]byte, tensor.JoinedSize(axis, ranges))
	tensor.JoinRows(out.Data, axis, ranges)
	return out
}

// difference says how two tensors differ beyond rounding; "": they do not.
func difference(got, want tensor.Tensor) string {
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Sprintf("shape %v, alone %v", got.Shape, want.Shape)
	}
	tolerance := map[tensor.DType]float64{tensor.Float16: 2e-2, tensor.Float32: 1e-4, tensor.Float64: 1e-8}[want.DType]
	if tolerance == 0 {
		if !bytes.Equal(got.Data, want.Data) {
			return fmt.Sprintf("%v, alone %v", got.Data, want.Data)
		}
		return ""
	}
	magnitude := 0.0
	g, w := numbers(got), numbers(want)
	for _, v := range w {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			magnitude = math.Max(magnitude, math.Abs(v))
		}
	}
	for i := range w {
		same := g[i] == w[i] || math.IsNaN(g[i]) && math.IsNaN(w[i]) || math.Abs(g[i]-w[i]) <= tolerance*magnitude+1e-30
		if !same {
			return fmt.Sprintf("element %d is %g, alone %g", i, g[i], w[i])
		}
	}
	return ""
}

func numbers(t tensor.Tensor) []float64 {
	list := make([]float64, len(t.Data)/t.DType.Size())
	tensor.Numbers(list, t.DType, t.Data, 0)
	return list
}

// mates says whether rows answer otherwise in batches than alone. Outputs have their rows along the axes given; where
// axes is nil, along the first dimension that has so many entries as there are rows, or they are the same for all.
func (r *trial) mates(axes map[string]int) (found string, ran bool) {
	share := r.draw([]palette{ordinary, ordinary, negatives}[r.rng.IntN(3)], nil)
	own := r.draw(palette(r.rng.IntN(2)*r.rng.IntN(int(palettes))), share)
	alone, err := r.run(own)
	if err != nil {
		return "", false
	}
	if slices.Contains(slices.Collect(maps.Values(r.sizes)), 0) {
		// Where Concat skips an input without entries, what it gives is not known alone either.
		again, err := r.run(own)
		for i := range alone {
			if err != nil || difference(again[i], alone[i]) != "" {
				return "", false
			}
		}
	}
	for _, n := range []int{2, 3, 5} {
		at := r.rng.IntN(n)
		members := make([][]tensor.Tensor, n)
		for i := range members {
			members[i] = r.draw(palette(r.rng.IntN(int(palettes))), share)
		}
		members[at] = own
		out, err := r.run(members...)
		if err != nil {
			for _, m := range members {
				if _, alone := r.run(m); alone != nil {
					err = nil // this one fails by itself
				}
			}
			if err != nil {
				return fmt.Sprintf("a batch of %d fails: %v", n, err), true
			}
			continue
		}
		for i, spec := range r.session.Signature().Outputs {
			got, axis, ok := out[i], 0, false
			if axes != nil {
				axis, ok = axes[spec.Name]
			} else if len(got.Shape) == len(alone[i].Shape) {
				for axis = range got.Shape {
					if ok = got.Shape[axis] == int64(n) && alone[i].Shape[axis] == 1; ok {
						break
					}
				}
			}
			if ok {
				if axis >= len(got.Shape) || got.Shape[axis] != int64(n) {
					return fmt.Sprintf("output %s of %d rows has shape %v", spec.Name, n, got.Shape), true
				}
				got = got.Row(axis, at)
			}
			if d := difference(got, alone[i]); d != "" {
				return fmt.Sprintf("output %s, row %d of %d: %s", spec.Name, at, n, d), true
			}
		}
	}
	return "", true
}

// differs tries a sketch so many times, and returns the first difference that it found and how often both sides ran.
func differs(session *ort.Session, s *sketch.Model, seed uint64, times int,
	axes map[string]int,
) (found string, ran int) {
	r := &trial{s: s, session: session, rng: rand.New(rand.NewPCG(seed, 1))}
	for range times {
		r.sizes = map[string]int64{}
		d, ok := r.mates(axes)
		if ok {
			ran++
		}
		if d != "" {
			return d, ran
		}
	}
	return "", ran
}
