package openinference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/status"
)

type whole interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type number interface{ whole | float32 | float64 }

// largest is a plain classes, of one row.
func largest[T number](row []T, n int) []string {
	nan := func(v T) bool {
		of := reflect.ValueOf(v)
		return of.CanFloat() && math.IsNaN(of.Float())
	}
	var out []string
	taken := make([]bool, len(row))
	for range min(n, len(row)) {
		best := -1
		for i, v := range row {
			if !taken[i] && (best < 0 || v > row[best] || nan(row[best]) && !nan(v)) {
				best = i
			}
		}
		taken[best] = true
		text := fmt.Sprint(row[best])
		if of := reflect.ValueOf(row[best]); of.CanFloat() {
			text = strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%f", of.Float()), "+"))
		}
		out = append(out, fmt.Sprintf("%s:%d", text, best))
	}
	return out
}

// compare has made-up rows of a type classified, and compares with largest.
func compare[T number](t *testing.T, dtype tensor.DType, draw func(*rand.Rand) T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(dtype), 7))
	for range 300 {
		rows, in, asked := rng.IntN(4), rng.IntN(40), 1+rng.IntN(45)
		values := make([]T, rows*in)
		for i := range values {
			values[i] = draw(rng)
		}
		raw, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range rows {
			want = append(want, largest(values[i*in:(i+1)*in], asked)...)
		}
		shape := tensor.Shape{int64(rows), int64(in)}
		spec := &tensor.Spec{DType: dtype, BatchDim: 0}
		of := &tensor.Tensor{DType: dtype, Shape: shape, Data: raw}
		got, err := classes(spec, of, uint64(asked), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(min(in, asked)); !slices.Equal(got.Shape, tensor.Shape{int64(rows), n}) || got.Check() != nil {
			t.Fatalf("the answer to %d of %v is %v: %v", asked, shape, got.Shape, got.Check())
		}
		if texts := textsOf(got.Data); !slices.Equal(texts, want) {
			t.Fatalf("%d of %v: %v, want %v", asked, values, texts, want)
		}
		if spec.BatchDim = tensor.NoBatch; rows == 1 {
			flat, err := classes(spec, of, uint64(asked), 1<<20)
			if err != nil || string(flat.Data) != string(got.Data) || !slices.Equal(flat.Shape, got.Shape[1:]) {
				t.Fatalf("without rows: %v, %v", flat, err)
			}
		}
	}
}

func textsOf(data []byte) []string {
	var out []string
	for len(data) > 0 {
		text, rest, _ := tensor.NextString(data)
		out, data = append(out, string(text)), rest
	}
	return out
}

// few draws numbers that are often equal, and the ends of a type.
func few[T whole](low, high T) func(*rand.Rand) T {
	return func(rng *rand.Rand) T {
		return []T{low, high, high - 1, low + 1, T(rng.IntN(5)), T(rng.Uint64())}[rng.IntN(6)]
	}
}

// TestClasses: for each type the largest elements come, in order.
func TestClasses(t *testing.T) {
	compare(t, tensor.Int8, few[int8](math.MinInt8, math.MaxInt8))
	compare(t, tensor.Int16, few[int16](math.MinInt16, math.MaxInt16))
	compare(t, tensor.Int32, few[int32](math.MinInt32, math.MaxInt32))
	compare(t, tensor.Int64, few[int64](math.MinInt64, math.MaxInt64))
	compare(t, tensor.Uint8, few[uint8](0, math.MaxUint8))
	compare(t, tensor.Uint16, few[uint16](0, math.MaxUint16))
	compare(t, tensor.Uint32, few[uint32](0, math.MaxUint32))
	compare(t, tensor.Uint64, few[uint64](0, math.MaxUint64))
	float := func(rng *rand.Rand) float64 {
		return []float64{
			math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), float64(rng.IntN(3)), rng.NormFloat64(), -1e30,
		}[rng.IntN(8)]
	}
	compare(t, tensor.Float64, float)
	compare(t, tensor.Float32, func(rng *rand.Rand) float32 { return float32(float(rng)) })
}

// TestClassesAsCHasThem: as std::to_string writes numbers, which Triton's answers have.
func TestClassesAsCHasThem(t *testing.T) {
	half := func(values ...float32) []byte {
		var raw []byte
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint16(raw, tensor.Float16Bits(v))
		}
		return raw
	}
	single := func(values ...float32) []byte {
		raw, _ := binary.Append(nil, binary.LittleEndian, values)
		return raw
	}
	for _, c := range []struct {
		dtype tensor.DType
		raw   []byte
		want  string
	}{
		{tensor.Float32, single(1, 5, 10, 4), "10.000000:2 5.000000:1"},
		{tensor.Float32, single(0.1, 1.0/3, -1e-9, 0), "0.333333:1 0.100000:0"},
		{tensor.Float32, single(1e20, 3.5e9), "100000002004087734272.000000:0 3500000000.000000:1"},
		{tensor.Float16, half(0.1, 65504), "65504.000000:1 0.099976:0"},
		{tensor.Uint8, []byte{7, 200}, "200:1 7:0"},
	} {
		of := &tensor.Tensor{DType: c.dtype, Shape: tensor.Shape{int64(len(c.raw) / c.dtype.Size())}, Data: c.raw}
		got, err := classes(&tensor.Spec{BatchDim: tensor.NoBatch}, of, 2, 1<<20)
		if text := strings.Join(textsOf(got.Data), " "); err != nil || text != c.want {
			t.Errorf("%v: %s, %v, want %s", c.dtype, text, err, c.want)
		}
	}
}

// TestClassesAreBounded: an answer beyond the limit is refused before all of it is made.
func TestClassesAreBounded(t *testing.T) {
	const n = 100_000
	raw := make([]byte, 0, 8*n)
	for range n {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(math.MaxFloat64)) // 316 bytes each
	}
	of := &tensor.Tensor{DType: tensor.Float64, Shape: tensor.Shape{n}, Data: raw}
	got, err := classes(&tensor.Spec{BatchDim: tensor.NoBatch}, of, n, 1000)
	if _, is := errors.AsType[*status.AnswerTooLargeError](err); !is || len(got.Data) > 2000 {
		t.Errorf("%d bytes, %v", len(got.Data), err)
	}
}
