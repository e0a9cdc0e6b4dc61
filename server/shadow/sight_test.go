package shadow

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// floats makes a tensor of float64 elements.
func floats(shape tensor.Shape, values []float64) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Float64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, math.Float64bits(v))
	}
	return t
}

// TestSightAgainstEachElement of tensors of all shapes, with rows along any dimension or none.
func TestSightAgainstEachElement(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 11))
		shape, dim := tensor.Shape{}, r.IntN(4)-1
		total := 1
		for range 1 + r.IntN(3) {
			shape = append(shape, 1+r.Int64N(20))
			total *= int(shape[len(shape)-1])
		}
		if seed%7 == 0 {
			shape, total = append(shape, 97), total*97
		}
		xs, ys := make([]float64, total), make([]float64, total)
		for i := range xs {
			xs[i] = r.NormFloat64()
			ys[i] = xs[i]
			switch r.IntN(10) {
			case 0:
				ys[i] += r.NormFloat64()
			case 1:
				if r.IntN(50) == 0 {
					ys[i] = math.NaN()
				}
			}
		}
		p := Output{Name: "y", Tensor: floats(shape, xs), BatchDim: dim}
		s := sightOf(&p, floats(shape, ys))

		// Elements by their coordinates: the index in the row is that of the coordinates without the batch's.
		rows, size := 1, total
		if dim >= 0 && dim < len(shape) {
			rows = int(shape[dim])
			size = total / rows
		}
		var errors [maxElements]float64
		parts := min(size, maxElements)
		far, row, at := 0.0, 0, 0
		for i := range xs {
			element, in, rest := 0, 0, i
			coordinates := make([]int, len(shape))
			for d := len(shape) - 1; d >= 0; d-- {
				coordinates[d] = rest % int(shape[d])
				rest /= int(shape[d])
			}
			for d, c := range coordinates {
				if d == dim {
					in = c
				} else {
					element = element*int(shape[d]) + c
				}
			}
			d := math.Abs(xs[i] - ys[i])
			if math.IsNaN(d) {
				d = math.Inf(1)
			}
			part := 0
			for part+1 < parts && (part+1)*size/parts <= element {
				part++
			}
			errors[part] = max(errors[part], d)
			if d > far {
				far, row, at = d, in, element
			}
			if l := layoutOf(&p); l.place(in, element) != i {
				t.Fatalf("seed %d: row %d, element %d of %v along %d is at %d, not %d", seed, in, element, shape, dim,
					l.place(in, element), i)
			}
		}
		if s.errors != errors || s.rows != int64(rows) || s.size != size || s.parts != parts {
			t.Fatalf("seed %d: %v along %d: %d rows of %d in %d parts, %v, want %v", seed, shape, dim, s.rows, s.size, s.parts,
				s.errors, errors)
		}
		if far > 0 && !math.IsInf(far, 1) && (s.row != row || s.at != at) {
			t.Fatalf("seed %d: the worst is in row %d, element %d, not %d, %d", seed, s.row, s.at, row, at)
		}
		if far > 0 {
			got := math.Abs(xs[layoutOf(&p).place(s.row, s.at)] - ys[layoutOf(&p).place(s.row, s.at)])
			if got != far && !(math.IsInf(far, 1) && math.IsNaN(got)) {
				t.Fatalf("seed %d: the worst differs by %v, not %v", seed, got, far)
			}
		}
	}
}

// TestSightOfIntegers that differ by less than a float64 can hold.
func TestSightOfIntegers(t *testing.T) {
	of := func(values ...int64) tensor.Tensor {
		v := tensor.Tensor{DType: tensor.Int64, Shape: tensor.Shape{1, int64(len(values))}}
		for _, x := range values {
			v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(x))
		}
		return v
	}
	s := sightOf(&Output{Tensor: of(1, 1<<60, 7)}, of(1, 1<<60+1, 7))
	if s.errors[0] != 0 || s.errors[1] != 1 || s.errors[2] != 0 || s.at != 1 || s.relative == 0 {
		t.Errorf("%+v", s)
	}
	if s := sightOf(&Output{Tensor: tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{3, 0}}},
		tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{3, 0}}); s != nil {
		t.Errorf("of no elements: %+v", s)
	}
}

// TestAbove never makes a difference smaller, nor nothing of one.
func TestAbove(t *testing.T) {
	for _, d := range []float64{0, 0.1, 1, 1e-300, 1e-45, 1e300, math.MaxFloat32, math.Inf(1), 5e-324} {
		f := above(d)
		if d < math.MaxFloat32 && float64(f) < d || math.IsInf(float64(f), 1) != math.IsInf(d, 1) || (f == 0) != (d == 0) {
			t.Errorf("%v became %v", d, f)
		}
	}
}

// TestSpread: each difference is in the bin between whose bounds it is.
func TestSpread(t *testing.T) {
	var s Spread
	for _, x := range []float64{0, 0, 1e-12, 10, 1e9, math.Inf(1)} {
		s.add(x)
	}
	if s.Equal != 2 || s.Below != 1 || s.Above != 3 || s.Bins != [Bins]int64{} {
		t.Errorf("%+v", s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var one Spread
		x := math.Pow(10, -9+10*r.Float64())
		one.add(x)
		for i, n := range one.Bins {
			from := SpreadFrom * math.Pow(SpreadTo/SpreadFrom, float64(i)/Bins)
			to := SpreadFrom * math.Pow(SpreadTo/SpreadFrom, float64(i+1)/Bins)
			if n == 1 && !(from*(1-1e-12) <= x && x < to*(1+1e-12)) {
				t.Fatalf("%v is in the bin from %v to %v", x, from, to)
			}
		}
		if sum := one.Below + one.Above + one.Equal; sum > 0 {
			t.Fatalf("%v: %+v", x, one)
		}
	}
}

// TestStrip keeps the latest ten minutes, whatever the clock does.
func TestStrip(t *testing.T) {
	var s strip
	start := time.Unix(1_700_000_000, 0)
	sight := func(size int, errors ...float64) *sight {
		v := &sightArray{}
		copy(v[:], errors)
		return newSight(size, v)
	}
	for i := range 200 {
		s.add(sight(3, 0, float64(i), 0), start.Add(time.Duration(i)*SliceDuration))
	}
	now := start.Add(199 * SliceDuration)
	if len(s.slices) != maxSlices {
		t.Errorf("%d slices are kept", len(s.slices))
	}
	all, _ := s.shown(now)
	if len(all) != maxSlices || all[0].Errors[1] != 140 || all[59].Errors[1] != 199 || all[59].Rows != 1 {
		t.Errorf("%d slices from %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if all, _ := s.shown(now.Add(30 * SliceDuration)); len(all) != 30 {
		t.Errorf("%d slices half the time later", len(all))
	}
	s.add(sight(3, 1000), now.Add(-time.Hour)) // the clock was put back
	if all, _ = s.shown(now); len(all) != maxSlices || all[59].Errors[0] != 1000 || all[59].Rows != 2 {
		t.Errorf("%+v", all[len(all)-1])
	}
	if s.varying {
		t.Error("rows of one length vary")
	}
	// Longer rows begin anew, as their elements are finer; shorter ones are stretched.
	s.add(sight(4, 0, 0, 0, 5), now)
	s.add(sight(2, 0, 7), now)
	all, _ = s.shown(now)
	if len(all) != 1 || !s.varying || s.size != 2 || !slices.Equal(all[0].Errors, []float32{0, 0, 7, 7}) {
		t.Errorf("%+v", all)
	}
}

type sightArray = [maxElements]float64

func newSight(size int, errors *sightArray) *sight {
	return &sight{size: size, parts: min(size, maxElements), rows: 1, errors: *errors}
}

// TestNoise keeps the largest finite difference of each part, however rows are divided.
func TestNoise(t *testing.T) {
	var n noise
	n.add(newSight(2, &sightArray{1, 2}))
	n.add(newSight(4, &sightArray{0, 5, 0, math.Inf(1)}))
	n.add(newSight(2, &sightArray{0, 3}))
	for i, want := range []float64{1, 5, 3, 3} {
		if got := n.of(i, 4); got != want {
			t.Errorf("part %d of 4: %v, want %v", i, got, want)
		}
	}
	if n.of(0, 2) != 5 || n.of(1, 2) != 3 || n.of(0, 1) != 5 || n.of(7, 8) != 3 || n.rows != 3 {
		t.Errorf("%+v", n)
	}
}

func TestLeastFloor(t *testing.T) {
	for _, c := range []struct {
		d         tensor.DType
		magnitude float64
		want      float64
	}{
		{tensor.Float32, 1, 4 * (float64(math.Nextafter32(1, 2)) - 1)},
		{tensor.Float64, 2, 8 * (math.Nextafter(1, 2) - 1)},
		{tensor.Float16, 1, 4.0 / 1024},
		{tensor.BFloat16, 1, 4.0 / 128},
		{tensor.Float32, 0, math.SmallestNonzeroFloat32},
		{tensor.Float64, 0, math.SmallestNonzeroFloat64},
		{tensor.Int32, 1e6, 0.5},
	} {
		if got := leastFloor(c.d, c.magnitude); got != c.want {
			t.Errorf("%v of magnitude %v: %v, want %v", c.d, c.magnitude, got, c.want)
		}
	}
}

// BenchmarkLook is BenchmarkCompare with each element told apart.
func BenchmarkLook(b *testing.B) {
	for name, shape := range map[string]tensor.Shape{"64x12": {64, 12}, "1x12": {1, 12}, "1x3072": {1, 3072}} {
		n := int(shape[0] * shape[1])
		xs, ys := make([]float64, n), make([]float64, n)
		for i := range xs {
			xs[i] = math.Sin(float64(i))
			ys[i] = xs[i] * 1.0001
		}
		p, s := []Output{{Name: "y", Tensor: floats(shape, xs)}}, []Output{{Name: "y", Tensor: floats(shape, ys)}}
		for _, closely := range []bool{false, true} {
			b.Run(name+map[bool]string{true: "/closely", false: "/counts"}[closely], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					look(p, s, func(string) float64 { return 1 }, closely)
				}
			})
		}
	}
}

// TestDetailsAreBounded by constants, and go with their pair.
func TestDetailsAreBounded(t *testing.T) {
	m := New(Config{})
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := func(shadow int64, outputs int) *pair {
		m.clock++
		p := m.pairLocked(key{"m", 1, shadow})
		p.last = m.clock
		var seen []*sight
		for i := range outputs {
			o := &Output{Name: string(rune('a' + i)), Tensor: floats(tensor.Shape{1, 1}, []float64{1})}
			seen = append(seen, sightOf(o, floats(tensor.Shape{1, 1}, []float64{1.5})))
		}
		m.markLocked(&job{pair: p, offer: &Offer{}}, seen, time.Unix(1e9, 0))
		return p
	}
	count := func() (prints int) {
		for _, p := range m.pairs {
			prints += len(p.prints)
		}
		return prints
	}
	first := mark(0, 20)
	if len(first.prints) != maxPairPrints {
		t.Errorf("%d prints of one pair", len(first.prints))
	}
	for i := range int64(2 * maxPairs) {
		if p := mark(i, 7); len(p.prints) < 7 {
			t.Fatalf("pair %d has %d prints", i, len(p.prints))
		}
		if count() > maxPrints {
			t.Fatalf("%d prints", count())
		}
	}
	if len(first.prints) != 0 || count() < maxPrints-7 {
		t.Errorf("%d prints of a pair that is gone, %d in all", len(first.prints), count())
	}
	late := mark(9, 0)
	delete(m.pairs, late.key)
	if p := m.printLocked(late, "y"); p != nil {
		t.Error("a pair that is gone has a print")
	}
}

// TestNoisesAreBounded, and those that are audited stay.
func TestNoisesAreBounded(t *testing.T) {
	m := New(Config{})
	y := floats(tensor.Shape{1}, []float64{1})
	for i := range int64(3 * maxNoises) {
		m.Audited("m", i, Output{Name: "y", Tensor: y}, y)
		m.Audited("m", 0, Output{Name: "y", Tensor: y}, y)
	}
	if n := m.noises[output{"m", 0, "y"}]; len(m.noises) != maxNoises || n == nil || n.rows != 3*maxNoises+1 {
		t.Errorf("%d noises, %+v", len(m.noises), n)
	}
}
