package shadow

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// floats makes a tensor of float64 elements.
func floats(shape tensor.Shape, values []float64) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Float64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, math.Float64bits(v))
	}
	return t
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
	profile := func(size int, errors ...float64) *compare.Profile {
		v := &errorsOfParts{}
		copy(v[:], errors)
		return newProfile(size, v)
	}
	for i := range 200 {
		s.add(profile(3, 0, float64(i), 0), start.Add(time.Duration(i)*SliceDuration))
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
	s.add(profile(3, 1000), now.Add(-time.Hour)) // the clock was put back
	if all, _ = s.shown(now); len(all) != maxSlices || all[59].Errors[0] != 1000 || all[59].Rows != 2 {
		t.Errorf("%+v", all[len(all)-1])
	}
	if s.varying {
		t.Error("rows of one length vary")
	}
	// Longer rows begin anew, as their elements are finer; shorter ones are stretched.
	s.add(profile(4, 0, 0, 0, 5), now)
	s.add(profile(2, 0, 7), now)
	all, _ = s.shown(now)
	if len(all) != 1 || !s.varying || s.size != 2 || !slices.Equal(all[0].Errors, []float32{0, 0, 7, 7}) {
		t.Errorf("%+v", all)
	}
}

type errorsOfParts = [compare.MaxParts]float64

func newProfile(size int, errors *errorsOfParts) *compare.Profile {
	return &compare.Profile{Size: size, Parts: min(size, compare.MaxParts), Rows: 1, Errors: *errors}
}

// TestNoise keeps the largest finite difference of each part, however rows are divided.
func TestNoise(t *testing.T) {
	var n noise
	n.add(newProfile(2, &errorsOfParts{1, 2}))
	n.add(newProfile(4, &errorsOfParts{0, 5, 0, math.Inf(1)}))
	n.add(newProfile(2, &errorsOfParts{0, 3}))
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

// TestDetailsAreBounded by constants, and go with their pair.
func TestDetailsAreBounded(t *testing.T) {
	m := New(Config{})
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := func(shadow int64, outputs int) *pair {
		m.clock++
		p := m.pairLocked(key{"m", 1, shadow})
		p.last = m.clock
		var seen []*compare.Profile
		for i := range outputs {
			o := &compare.Output{Name: string(rune('a' + i)), Tensor: floats(tensor.Shape{1, 1}, []float64{1})}
			seen = append(seen, compare.ProfileOf(o, floats(tensor.Shape{1, 1}, []float64{1.5})))
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

// TestNoisesAreBounded, and the ones that are audited stay.
func TestNoisesAreBounded(t *testing.T) {
	m := New(Config{})
	y := floats(tensor.Shape{1}, []float64{1})
	for i := range int64(3 * maxNoises) {
		m.Audited("m", i, compare.Output{Name: "y", Tensor: y}, y)
		m.Audited("m", 0, compare.Output{Name: "y", Tensor: y}, y)
	}
	if n := m.noises[output{"m", 0, "y"}]; len(m.noises) != maxNoises || n == nil || n.rows != 3*maxNoises+1 {
		t.Errorf("%d noises, %+v", len(m.noises), n)
	}
}
