package shadow_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
)

// of makes a tensor of elements written as text, such as "1 -2 .inf .nan".
func of(t testing.TB, dtype tensor.DType, shape tensor.Shape, elements string) tensor.Tensor {
	t.Helper()
	v := tensor.Tensor{DType: dtype, Shape: shape}
	for text := range strings.FieldsSeq(elements) {
		e, err := tensor.ParseElement(dtype, text)
		if err != nil {
			t.Fatal(err)
		}
		v.Data = append(v.Data, e...)
	}
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	return v
}

// everywhere is one tolerance for all outputs.
func everywhere(tolerance float64) func(string) float64 {
	return func(string) float64 { return tolerance }
}

// one compares two tensors, the rows of which lie along dimension dim.
func one(t testing.TB, primary, other tensor.Tensor, dim int, tolerance float64) shadow.Difference {
	t.Helper()
	all := shadow.Compare([]shadow.Output{{Name: "y", Tensor: primary, BatchDim: dim}},
		[]shadow.Output{{Name: "y", Tensor: other}}, everywhere(tolerance))
	if len(all) != 1 || all[0].Name != "y" {
		t.Fatalf("got %+v", all)
	}
	all[0].Name = ""
	return all[0]
}

var (
	inf    = math.Inf(1)
	almost = cmpopts.EquateApprox(1e-12, 1e-15)
)

func TestCompareNumbers(t *testing.T) {
	cos := func(c, absolute, relative float64, rows, same int64, agreed bool) shadow.Difference {
		return shadow.Difference{
			MaxAbsolute: absolute, MaxRelative: relative, Cosine: c, HasCosine: true, Rows: rows,
			SameArgmax: same, Agreed: agreed,
		}
	}
	tests := map[string]struct {
		dtype tensor.DType
		shape tensor.Shape
		dim   int
		p, s  string
		tol   float64
		want  shadow.Difference
	}{
		"equal": {
			tensor.Float32,
			tensor.Shape{2, 2},
			0, "1 2 3 4", "1 2 3 4", 0,
			cos(1, 0, 0, 2, 2, true),
		},
		"within tolerance": {
			tensor.Float64,
			tensor.Shape{1, 2},
			0, "0 100", "0 100.1", 1.001e-3,
			cos(1, 100.1-100, (100.1-100)/100, 1, 1, true),
		},
		"beyond tolerance": {
			tensor.Float64,
			tensor.Shape{1, 2},
			0, "0 100", "0 100.1", 0.999e-3,
			cos(1, 100.1-100, (100.1-100)/100, 1, 1, false),
		},
		"relative to primary": {tensor.Float32, tensor.Shape{1, 2}, 0, "4 0", "0 -8", 1, cos(0, 8, 2, 1, 1, false)},
		"opposite":            {tensor.Float32, tensor.Shape{2}, 0, "1 2", "-1 -2", 1, cos(-1, 4, 2, 2, 2, false)},
		"argmax by row": {
			tensor.Float32,
			tensor.Shape{3, 2},
			0, "1 2 4 3 5 6", "2 1 4 3 6 5", 1,
			cos(89./91, 1, 1./6, 3, 1, true),
		},
		"argmax, one row": {
			tensor.Float32,
			tensor.Shape{3, 2},
			tensor.NoBatch, "1 2 4 3 5 6", "2 1 4 3 6 5", 1,
			cos(89./91, 1, 1./6, 1, 0, true),
		},
		"argmax, rows in columns": {
			tensor.Float32,
			tensor.Shape{2, 3},
			1, "1 2 3 0 0 4", "1 0 3 0 2 4", 1,
			cos(26./30, 2, .5, 3, 2, true),
		},
		"rows within": {
			tensor.Float32,
			tensor.Shape{2, 2, 2},
			1, "1 0 0 1 0 0 0 0", "1 0 0 0 0 0 0 1", 1,
			cos(.5, 1, 1, 2, 1, true),
		},
		"more dimensions": {
			tensor.Float32,
			tensor.Shape{1, 2, 2},
			0, "1 2 3 4", "1 2 4 3", 1,
			cos(29./30, 1, .25, 1, 0, true),
		},
		"first of equal": {
			tensor.Float32,
			tensor.Shape{1, 3},
			0, "2 2 1", "2 1 2", 1,
			cos(8./9, 1, .5, 1, 1, true),
		},
		"scalar":                 {tensor.Float32, tensor.Shape{}, 0, "2", "3", 1, cos(1, 1, .5, 1, 1, true)},
		"dimension is not there": {tensor.Float32, tensor.Shape{2}, 3, "1 2", "2 1", 1, cos(.8, 1, .5, 1, 0, true)},
		"zeros":                  {tensor.Float32, tensor.Shape{2}, 0, "0 0", "0 0", 0, cos(1, 0, 0, 2, 2, true)},
		"zero and minus zero":    {tensor.Float32, tensor.Shape{1}, 0, "0", "-0", 0, cos(1, 0, 0, 1, 1, true)},
		"primary zero":           {tensor.Float32, tensor.Shape{1}, 0, "0", "1", 1, cos(0, 1, inf, 1, 1, false)},
		"shadow zero":            {tensor.Float32, tensor.Shape{1}, 0, "1", "0", 1, cos(0, 1, 1, 1, 1, true)},
		"NaN in both": {
			tensor.Float32,
			tensor.Shape{1, 3},
			0, ".nan 1 2", ".nan 1 2", 0,
			cos(1, 0, 0, 1, 1, true),
		},
		"NaN in the shadow": {
			tensor.Float32,
			tensor.Shape{1, 3},
			0, "3 1 2", ".nan 1 2", 1,
			cos(1, inf, inf, 1, 0, false),
		},
		"NaN in the primary": {
			tensor.Float32,
			tensor.Shape{1, 3},
			0, "0 .nan 2", "0 1 2", 1,
			cos(1, inf, inf, 1, 1, false),
		},
		"infinity in both": {
			tensor.Float32,
			tensor.Shape{1, 2},
			0, ".inf 1", ".inf 1", 0,
			cos(1, 0, 0, 1, 1, true),
		},
		"opposite infinities": {
			tensor.Float32,
			tensor.Shape{1, 2},
			0, ".inf 1", "-.inf 1", 1,
			cos(1, inf, inf, 1, 0, false),
		},
		"infinity is no scale": {
			tensor.Float32,
			tensor.Shape{1, 3},
			0, "-.inf 4 0", "-.inf 4 1", 1,
			cos(4/math.Sqrt(17), 1, .25, 1, 1, true),
		},
		"infinity against number": {
			tensor.Float32,
			tensor.Shape{1, 2},
			0, "5 1", ".inf 1", 1,
			cos(1, inf, inf, 1, 1, false),
		},
		"NaN against infinity": {
			tensor.Float32,
			tensor.Shape{1, 2},
			0, ".inf 1", ".nan 1", 1,
			cos(1, inf, inf, 1, 0, false),
		},
		"squares too large": {
			tensor.Float64,
			tensor.Shape{1, 2},
			0, "3e200 4e200", "4e200 3e200", 1,
			cos(.96, 1e200, .25, 1, 0, true),
		},
		"squares too small": {
			tensor.Float64,
			tensor.Shape{1, 2},
			0, "3e-200 4e-200", "4e-200 3e-200", 1,
			cos(.96, 1e-200, .25, 1, 0, true),
		},
		"fp16": {
			tensor.Float16,
			tensor.Shape{1, 2},
			0, "0.5 -2", "0.75 -2", 1,
			cos(4.375/math.Sqrt(4.25*4.5625), .25, .125, 1, 1, true),
		},
		"bf16": {
			tensor.BFloat16,
			tensor.Shape{1, 2},
			0, "0.5 -2", "0.75 -2", 1,
			cos(4.375/math.Sqrt(4.25*4.5625), .25, .125, 1, 1, true),
		},
		"int8": {
			tensor.Int8,
			tensor.Shape{1, 2},
			0, "-128 127", "-128 -1", 1,
			cos(16257/math.Sqrt(32513*16385), 128, 1, 1, 1, false),
		},
		"int16": {
			tensor.Int16,
			tensor.Shape{1, 2},
			0, "-400 300", "-400 0", 1,
			cos(.8, 300, .75, 1, 1, false),
		},
		"int32": {
			tensor.Int32,
			tensor.Shape{1, 2},
			0, "-400000 300000", "-400000 0", 1,
			cos(.8, 300000, .75, 1, 1, false),
		},
		"int64": {
			tensor.Int64,
			tensor.Shape{1, 2},
			0, "-4000000000000 3000000000000", "-4000000000000 0",
			1, cos(.8, 3e12, .75, 1, 1, false),
		},
		"uint8": {
			tensor.Uint8,
			tensor.Shape{1, 2},
			0, "200 150", "200 0", 1,
			cos(.8, 150, .75, 1, 1, false),
		},
		"uint16": {
			tensor.Uint16,
			tensor.Shape{1, 2},
			0, "40000 30000", "40000 0", 1,
			cos(.8, 30000, .75, 1, 1, false),
		},
		"uint32": {
			tensor.Uint32,
			tensor.Shape{1, 2},
			0, "4000000000 3000000000", "4000000000 0", 1,
			cos(.8, 3e9, .75, 1, 1, false),
		},
		"uint64": {
			tensor.Uint64,
			tensor.Shape{1, 2},
			0, "16000000000000000000 12000000000000000000",
			"16000000000000000000 0", 1, cos(.8, 1.2e19, .75, 1, 1, false),
		},
		"equal integers": {tensor.Int64, tensor.Shape{1, 2}, 0, "3 4", "3 4", 0, cos(1, 0, 0, 1, 1, true)},
		"large integers": {
			tensor.Int64,
			tensor.Shape{1},
			0, "9007199254740993", "9007199254740992", 1,
			cos(1, 1, 1./9007199254740992, 1, 1, false),
		},
		"no elements":         {tensor.Float32, tensor.Shape{0, 3}, 0, "", "", 0, shadow.Difference{Agreed: true}},
		"rows of no elements": {tensor.Float32, tensor.Shape{3, 0}, 0, "", "", 0, shadow.Difference{Agreed: true}},
		"nothing finite": {
			tensor.Float32,
			tensor.Shape{1, 1},
			0, ".nan", ".nan", 0,
			shadow.Difference{Rows: 1, SameArgmax: 1, Agreed: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := one(t, of(t, tt.dtype, tt.shape, tt.p), of(t, tt.dtype, tt.shape, tt.s), tt.dim, tt.tol)
			if diff := cmp.Diff(tt.want, got, almost); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestCompareSlowly compares random tensors with a walk by coordinates that knows nothing of the layout in memory.
func TestCompareSlowly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for dtype := tensor.Int8; dtype <= tensor.Float64; dtype++ {
		for _, shape := range []tensor.Shape{{7}, {5, 3}, {2, 3, 4}, {3, 1, 2, 2}, {2, 700}, {700, 2}, {1000}} {
			for dim := tensor.NoBatch; dim < len(shape); dim++ {
				p, s := random(rng, dtype, shape), random(rng, dtype, shape)
				got := one(t, p, s, dim, 0)
				want := slowly(t, p, s, dim)
				if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
					t.Errorf("%v%v, rows along %d (-want +got)\n%s", dtype, shape, dim, diff)
				}
			}
		}
	}
}

// random makes up small numbers, among floating point numbers with some that are not finite.
func random(rng *rand.Rand, dtype tensor.DType, shape tensor.Shape) tensor.Tensor {
	v := tensor.Tensor{DType: dtype, Shape: shape}
	n, _ := shape.Elements()
	for range n {
		text := strconv.Itoa(rng.IntN(100))
		if dtype.IsFloat() && rng.IntN(20) == 0 {
			text = []string{".nan", ".inf", "-.inf"}[rng.IntN(3)]
		}
		e, _ := tensor.ParseElement(dtype, text)
		v.Data = append(v.Data, e...)
	}
	return v
}

func slowly(t *testing.T, p, s tensor.Tensor, dim int) shadow.Difference {
	var d shadow.Difference
	var scale, dot, pp, ss float64
	type peak struct{ p, s int }
	best := map[int64]*peak{}
	xs, ys := values(t, p), values(t, s)
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	for i := range xs {
		x, y := xs[i], ys[i]
		row, rest := int64(0), int64(i)
		for k, size := range slices.Backward(p.Shape) {
			if k == dim {
				row = rest % size
			}
			rest /= size
		}
		b := best[row]
		if b == nil {
			b = &peak{-1, -1}
			best[row] = b
		}
		if !math.IsNaN(x) && (b.p < 0 || x > xs[b.p]) {
			b.p = i
		}
		if !math.IsNaN(y) && (b.s < 0 || y > ys[b.s]) {
			b.s = i
		}
		switch {
		case finite(x) && finite(y):
			d.MaxAbsolute = max(d.MaxAbsolute, math.Abs(x-y))
			dot, pp, ss = dot+x*y, pp+x*x, ss+y*y
		case x != y && !(math.IsNaN(x) && math.IsNaN(y)):
			d.MaxAbsolute = inf
		}
		if finite(x) {
			scale = max(scale, math.Abs(x))
		}
	}
	d.MaxRelative = d.MaxAbsolute / scale
	d.Cosine, d.HasCosine = dot/math.Sqrt(pp*ss), true
	for _, b := range best {
		d.Rows++
		if b.p == b.s {
			d.SameArgmax++
		}
	}
	return d
}

// values reads numbers one by one.
func values(t *testing.T, v tensor.Tensor) []float64 {
	var all []float64
	for e := range slices.Chunk(v.Data, v.DType.Size()) {
		var bits [8]byte
		copy(bits[:], e)
		n := binary.LittleEndian.Uint64(bits[:])
		switch v.DType {
		case tensor.Float16:
			all = append(all, float64(tensor.Float16Value(uint16(n))))
		case tensor.BFloat16:
			all = append(all, float64(tensor.BFloat16Value(uint16(n))))
		case tensor.Float32:
			all = append(all, float64(math.Float32frombits(uint32(n))))
		case tensor.Float64:
			all = append(all, math.Float64frombits(n))
		default:
			all = append(all, float64(n)) // random makes no negative integers
		}
	}
	if len(all) == 0 {
		t.Fatal("no elements")
	}
	return all
}

func TestCompareEqualOrNot(t *testing.T) {
	words := func(all ...string) tensor.Tensor {
		v := tensor.Tensor{DType: tensor.String, Shape: tensor.Shape{int64(len(all))}}
		for _, w := range all {
			v.Data = tensor.AppendString(v.Data, []byte(w))
		}
		return v
	}
	bools := func(all string) tensor.Tensor { return of(t, tensor.Bool, tensor.Shape{2}, all) }
	same, other := shadow.Difference{Agreed: true}, shadow.Difference{MaxAbsolute: 1, MaxRelative: 1}
	for name, tt := range map[string]struct {
		p, s tensor.Tensor
		want shadow.Difference
	}{
		"equal strings":                 {words("a", ""), words("a", ""), same},
		"a string":                      {words("a", "b"), words("a", "c"), other},
		"the same text cut differently": {words("ab", "c"), words("a", "bc"), other},
		"equal bools":                   {bools("true false"), bools("true false"), same},
		"a bool":                        {bools("false false"), bools("false true"), other},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, one(t, tt.p, tt.s, 0, 1)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCompareMismatch(t *testing.T) {
	f := of(t, tensor.Float32, tensor.Shape{1, 2}, "1 2")
	broken := f
	broken.Data = f.Data[:7]
	for name, tt := range map[string]struct {
		p, s tensor.Tensor
		want string
	}{
		"type": {
			f, of(t, tensor.Float64, tensor.Shape{1, 2}, "1 2"),
			"the shadow gives fp64 [1,2] instead of fp32 [1,2]",
		},
		"shape": {
			f, of(t, tensor.Float32, tensor.Shape{2, 1}, "1 2"),
			"the shadow gives fp32 [2,1] instead of fp32 [1,2]",
		},
		"shadow": {f, broken, "the shadow's is broken: shape [1,2] of fp32 asks for 2 elements of 4 bytes, got 7 " +
			"bytes"},
		"primary": {
			broken, f, "the primary's is broken: shape [1,2] of fp32 asks for 2 elements of 4 bytes, got 7 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(shadow.Difference{Mismatch: tt.want}, one(t, tt.p, tt.s, 0, 1)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCompareByName(t *testing.T) {
	a, b := of(t, tensor.Int8, tensor.Shape{1}, "1"), of(t, tensor.Int8, tensor.Shape{1}, "2")
	got := shadow.Compare(
		[]shadow.Output{{Name: "z", Tensor: a}, {Name: "gone", Tensor: a}, {Name: "b", Tensor: b}},
		[]shadow.Output{{Name: "b", Tensor: b}, {Name: "new", Tensor: a}, {Name: "z", Tensor: a}}, everywhere(0))
	equal := shadow.Difference{Cosine: 1, HasCosine: true, Rows: 1, SameArgmax: 1, Agreed: true}
	want := []shadow.Difference{
		equal,
		{Mismatch: "the shadow does not give it"},
		equal,
		{Mismatch: "only the shadow gives it"},
	}
	for i, name := range []string{"z", "gone", "b", "new"} {
		want[i].Name = name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
