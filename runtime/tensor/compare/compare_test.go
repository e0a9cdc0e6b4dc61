package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

// of makes a tensor of elements written as text, such as "1 -2 .inf .nan"; ” is an empty string.
func of(t testing.TB, dtype tensor.DType, shape tensor.Shape, elements string) tensor.Tensor {
	t.Helper()
	v := tensor.Tensor{DType: dtype, Shape: shape}
	for text := range strings.FieldsSeq(elements) {
		e, err := tensor.ParseElement(dtype, strings.Trim(text, "'"))
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

// one compares two tensors whose rows lie along a dimension.
func one(primary, shadow tensor.Tensor, dim int, tolerance float64) Difference {
	all, _ := Outputs([]Output{{Name: "y", Tensor: primary, BatchDim: dim}}, []Output{{Name: "y", Tensor: shadow}},
		func(string) float64 { return tolerance })
	return all[0]
}

// TestPairs has the verdicts of testdata/pairs.txt.
func TestPairs(t *testing.T) {
	text, err := os.ReadFile("testdata/pairs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		part := strings.Split(line, "|")
		if len(part) != 5 || line[0] == '#' {
			continue
		}
		name := strings.TrimSpace(part[0])
		t.Run(name, func(t *testing.T) {
			var typeName, size string
			var dim int
			var tolerance float64
			if _, err := fmt.Sscan(part[1], &typeName, &size, &dim, &tolerance); err != nil {
				t.Fatal(err)
			}
			dtype, _ := tensor.ParseDType(typeName)
			var shape tensor.Shape
			for n := range strings.FieldsFuncSeq(size, func(r rune) bool { return strings.ContainsRune("[,]", r) }) {
				var d int64
				if _, err := fmt.Sscan(n, &d); err != nil {
					t.Fatal(err)
				}
				shape = append(shape, d)
			}
			p, s := of(t, dtype, shape, part[2]), of(t, dtype, shape, part[3])
			d := one(p, s, dim, tolerance)
			got := fmt.Sprintf("%.5g %.5g", d.MaxAbsolute, d.MaxRelative)
			if d.HasCosine {
				got += fmt.Sprintf(" cos %.5g", d.Cosine)
			}
			got += fmt.Sprintf(" same %d/%d", d.SameArgmax, d.Rows)
			if d.Agreed {
				got += " agreed"
			}
			if want := strings.TrimSpace(part[4]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			relative, want := d.MaxRelative, math.Inf(1)
			if far, err := Relative(s, p, nil, 0); dtype.IsFloat() || relative == 0 {
				want = relative
				if err != nil || far != want {
					t.Errorf("Relative: %v, %v", far, err)
				}
			} else if err != nil || far != want {
				t.Errorf("Relative of what is no floating point number: %v, %v", far, err)
			}
		})
	}
}

// TestByCoordinates compares random tensors with a walk by coordinates that knows nothing of the layout in memory.
func TestByCoordinates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for dtype := tensor.Int8; dtype <= tensor.Float64; dtype++ {
		for _, shape := range []tensor.Shape{
			{7}, {5, 3}, {2, 3, 4}, {3, 1, 2, 2}, {2, 700}, {700, 2}, {1000}, {4, 3, 97},
		} {
			for dim := tensor.NoBatch; dim < len(shape); dim++ {
				for _, equal := range []int{0, 9} { // of ten elements
					byCoordinates(t, rng, dtype, shape, dim, equal)
				}
			}
		}
	}
}

// random makes up a small number, among floating point numbers some that are not finite.
func random(rng *rand.Rand, dtype tensor.DType) float64 {
	if dtype.IsFloat() && rng.IntN(20) == 0 {
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
	}
	return float64(rng.IntN(100))
}

// place returns the row and the element of a place in a tensor.
func place(i int, shape tensor.Shape, dim int) (row, element int) {
	coordinates := make([]int, len(shape))
	for d, n := range slices.Backward(shape) {
		coordinates[d] = i % int(n)
		i /= int(n)
	}
	for d, c := range coordinates {
		if d == dim {
			row = c
		} else {
			element = element*int(shape[d]) + c
		}
	}
	return row, element
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func byCoordinates(t *testing.T, rng *rand.Rand, dtype tensor.DType, shape tensor.Shape, dim, equal int) {
	n, _ := shape.Elements()
	total, largest := int(n), 0.0
	xs, ys := make([]float64, total), make([]float64, total)
	for i := range total {
		xs[i] = random(rng, dtype)
		if ys[i] = xs[i]; rng.IntN(10) >= equal {
			ys[i] = random(rng, dtype)
		}
		if finite(xs[i]) {
			largest = max(largest, math.Abs(xs[i]))
		}
	}
	p := of(t, dtype, shape, strings.Trim(fmt.Sprint(xs), "[]"))
	s := of(t, dtype, shape, strings.Trim(fmt.Sprint(ys), "[]"))

	rows, size := 1, total
	if dim >= 0 {
		rows = int(shape[dim])
		size /= rows
	}
	want := Difference{Name: "y", Rows: int64(rows), HasCosine: true}
	parts := min(size, MaxParts)
	var errors [MaxParts]float64
	peaks := slices.Repeat([][2]int{{-1, -1}}, rows) // the places of the largest
	const least = 0.5
	scale := make([]float64, total)
	var relative, dot, pp, qq float64 // relative to scale
	for i, x := range xs {
		row, element := place(i, shape, dim)
		y, far := ys[i], 0.0
		switch {
		case finite(x) && finite(y):
			far = math.Abs(x - y)
			dot, pp, qq = dot+x*y, pp+x*x, qq+y*y
		case x != y && !(math.IsNaN(x) && math.IsNaN(y)):
			far = math.Inf(1)
		}
		if far > want.MaxAbsolute {
			want.MaxAbsolute = far
		}
		part := 0
		for part+1 < parts && (part+1)*size/parts <= element {
			part++
		}
		errors[part] = max(errors[part], far)
		scale[i] = max(Magnitude(p, i), 1)
		if far > 0 {
			relative = max(relative, far/max(scale[i], least*largest))
		}
		for k, v := range []float64{x, y} {
			of := [][]float64{xs, ys}[k]
			if best := &peaks[row][k]; !math.IsNaN(v) && (*best < 0 || v > of[*best]) {
				*best = i
			}
		}
	}
	want.MaxRelative, want.Cosine = want.MaxAbsolute/largest, dot/math.Sqrt(pp*qq)
	want.Agreed = want.MaxAbsolute == 0
	for _, b := range peaks {
		if b[0] == b[1] {
			want.SameArgmax++
		}
	}

	which := fmt.Sprintf("%v%v, rows along %d", dtype, shape, dim)
	got := one(p, s, dim, 0)
	if math.Abs(got.Cosine-want.Cosine) > 1e-9 {
		t.Errorf("%s: cosine %v, want %v", which, got.Cosine, want.Cosine)
	}
	if got.Cosine = want.Cosine; got != want {
		t.Errorf("%s: (-want +got)\n%s", which, cmp.Diff(want, got))
	}
	f := ProfileOf(&Output{Tensor: p, BatchDim: dim}, s)
	if f.Errors != errors || f.Rows != int64(rows) || f.Size != size || f.Parts != parts || f.Magnitude != largest ||
		f.Absolute != want.MaxAbsolute || f.Relative != want.MaxRelative {
		t.Fatalf("%s: %+v, want errors %v", which, f, errors)
	}
	first, around, other := f.Around()
	if x, y := around[f.At-first], other[f.At-first]; f.Row >= rows || apart(0, x, y) != want.MaxAbsolute {
		t.Errorf("%s: %v and %v are the worst, in row %d, element %d, which do not differ by %v", which, x, y, f.Row,
			f.At, want.MaxAbsolute)
	}
	if far, err := Relative(s, p, scale, least); dtype.IsFloat() && (far != relative || err != nil) {
		t.Errorf("%s: relative to the scale of its elements: %v, %v, want %v", which, far, err, relative)
	}
}

// TestRelative to the scale of each element, or a part of the largest magnitude where that is more.
func TestRelative(t *testing.T) {
	for _, tt := range []struct {
		got, want string
		scale     []float64
		least     float64
		far       float64
	}{
		{"1 3", "1 2", []float64{4, 4}, 0, 0.25},
		{"1.5 100", "1 100", []float64{1, 100}, 0.01, 0.5},
		{"1.5 100", "1 100", []float64{1, 100}, 0.02, 0.25},
		{"1 0.125", "1 0", []float64{1, 0}, 0, math.Inf(1)},
		{"1 .nan", "1 0", []float64{1, 1}, 0, math.Inf(1)},
		{".inf .nan", ".inf .nan", []float64{0, 0}, 0, 0},
		{"0", "-0", []float64{0}, 0, 0},
	} {
		shape := tensor.Shape{int64(len(tt.scale))}
		far, err := Relative(of(t, tensor.Float64, shape, tt.got), of(t, tensor.Float64, shape, tt.want), tt.scale, tt.least)
		if err != nil || far != tt.far {
			t.Errorf("%s beside %s: %v, %v, want %v", tt.got, tt.want, far, err, tt.far)
		}
	}
}

// TestLargeIntegers that differ by less than a float64 can hold.
func TestLargeIntegers(t *testing.T) {
	shape := tensor.Shape{1, 3}
	p := of(t, tensor.Int64, shape, "1 1152921504606846976 7")
	f := ProfileOf(&Output{Tensor: p}, of(t, tensor.Int64, shape, "1 1152921504606846977 7"))
	if f.Errors[0] != 0 || f.Errors[1] != 1 || f.Errors[2] != 0 || f.At != 1 || f.Relative == 0 {
		t.Errorf("%+v", f)
	}
}

// TestNoProfile of what has no numbers, or cannot be compared.
func TestNoProfile(t *testing.T) {
	none, word := of(t, tensor.Float32, tensor.Shape{3, 0}, ""), of(t, tensor.String, tensor.Shape{1}, "a")
	for _, pair := range [][2]tensor.Tensor{{none, none}, {word, word}, {of(t, tensor.Int8, tensor.Shape{1}, "1"), word}} {
		if f := ProfileOf(&Output{Tensor: pair[0]}, pair[1]); f != nil {
			t.Errorf("of %v: %+v", pair[0], f)
		}
	}
}

func TestMismatch(t *testing.T) {
	f := of(t, tensor.Float32, tensor.Shape{1, 2}, "1 2")
	broken := f
	broken.Data = f.Data[:7]
	const lacks = "shape [1,2] of fp32 asks for 2 elements of 4 bytes, got 7 bytes"
	for _, tt := range []struct {
		p, s tensor.Tensor
		want string
	}{
		{f, of(t, tensor.Float64, tensor.Shape{1, 2}, "1 2"), "the shadow gives fp64 [1,2] instead of fp32 [1,2]"},
		{f, of(t, tensor.Float32, tensor.Shape{2, 1}, "1 2"), "the shadow gives fp32 [2,1] instead of fp32 [1,2]"},
		{f, broken, "the shadow's is broken: " + lacks},
		{broken, f, "the primary's is broken: " + lacks},
	} {
		if got := one(tt.p, tt.s, 0, 1); got != (Difference{Name: "y", Mismatch: tt.want}) {
			t.Errorf("%q: %+v", tt.want, got)
		}
	}
	for _, tt := range []struct {
		of   tensor.Tensor
		want string
	}{
		{of(t, tensor.Float64, tensor.Shape{1, 2}, "1 2"), "has type fp32 and shape [1,2] instead of fp64 and [1,2]"},
		{of(t, tensor.Float32, tensor.Shape{2}, "1 2"), "has type fp32 and shape [1,2] instead of fp32 and [2]"},
	} {
		if _, err := Relative(f, tt.of, nil, 0); err == nil || err.Error() != tt.want {
			t.Errorf("Relative: %v, want %q", err, tt.want)
		}
	}
}

func TestByName(t *testing.T) {
	a, b := of(t, tensor.Int8, tensor.Shape{1}, "1"), of(t, tensor.Int8, tensor.Shape{1}, "2")
	got, seen := Outputs([]Output{{Name: "z", Tensor: a}, {Name: "gone", Tensor: a}, {Name: "b", Tensor: b}},
		[]Output{{Name: "b", Tensor: b}, {Name: "new", Tensor: a}, {Name: "z", Tensor: a}}, func(string) float64 { return 0 })
	equal := Difference{Cosine: 1, HasCosine: true, Rows: 1, SameArgmax: 1, Agreed: true}
	want := []Difference{
		equal, {Mismatch: "the shadow does not give it"}, equal, {Mismatch: "only the shadow gives it"},
	}
	for i, name := range []string{"z", "gone", "b", "new"} {
		want[i].Name = name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(seen) != 2 || seen[0].Primary.Name != "z" || seen[1].Primary.Name != "b" {
		t.Errorf("profiles %+v", seen)
	}
}

func Benchmark(b *testing.B) {
	for _, shape := range []tensor.Shape{{64, 12}, {1, 12}, {1, 3072}} {
		var ps, ss []string
		for i := range shape[0] * shape[1] {
			v := math.Sin(float64(i))
			ps, ss = append(ps, fmt.Sprint(v)), append(ss, fmt.Sprint(v*1.0001))
		}
		p := []Output{{Name: "y", Tensor: of(b, tensor.Float32, shape, strings.Join(ps, " "))}}
		s := []Output{{Name: "y", Tensor: of(b, tensor.Float32, shape, strings.Join(ss, " "))}}
		b.Run(shape.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Outputs(p, s, func(string) float64 { return 1 })
			}
		})
	}
}
