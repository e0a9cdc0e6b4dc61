package tensor

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/weftserve/weft/internal/race"
)

// nearest is the slow oracle of narrowing: of all finite values of a 16-bit format, ascending and non-negative, the one
// nearest to f, ties to the even bit pattern; limit is the first magnitude that rounds to infinity.
type nearest struct {
	values []float64 // values[i] is the value of bit pattern i
	limit  float64
}

func newNearest(widen func(uint16) float32, infinity uint16) nearest {
	n := nearest{values: make([]float64, infinity)}
	for bits := range n.values {
		n.values[bits] = float64(widen(uint16(bits)))
	}
	last := len(n.values) - 1
	n.limit = n.values[last] + (n.values[last]-n.values[last-1])/2
	return n
}

func (n nearest) bits(f float32) uint16 {
	sign := uint16(math.Float32bits(f)>>16) & 0x8000
	abs := math.Abs(float64(f))
	if abs >= n.limit {
		return sign | uint16(len(n.values))
	}
	above := sort.SearchFloat64s(n.values, abs)
	if above == len(n.values) {
		return sign | uint16(above-1)
	}
	if above == 0 || n.values[above] == abs {
		return sign | uint16(above)
	}
	up, down := n.values[above]-abs, abs-n.values[above-1]
	if up < down || up == down && above%2 == 0 {
		return sign | uint16(above)
	}
	return sign | uint16(above-1)
}

func TestNarrowingRoundsToNearestEven(t *testing.T) {
	race.Skip(t, "one goroutine")
	for _, format := range []struct {
		name     string
		widen    func(uint16) float32
		narrow   func(float32) uint16
		infinity uint16
	}{
		{"fp16", Float16Value, Float16Bits, 0x7c00},
		{"bf16", BFloat16Value, BFloat16Bits, 0x7f80},
	} {
		t.Run(format.name, func(t *testing.T) {
			oracle := newNearest(format.widen, format.infinity)
			check := func(f float32) {
				t.Helper()
				if got, want := format.narrow(f), oracle.bits(f); got != want {
					t.Fatalf("narrow(%g = %#08x) = %#04x, want %#04x", f, math.Float32bits(f), got, want)
				}
			}
			for bits := range 1 << 16 {
				f := format.widen(uint16(bits))
				if f != f {
					if back := format.widen(format.narrow(f)); back == back {
						t.Fatalf("NaN %#04x narrows to %g", bits, back)
					}
					continue
				}
				if got := format.narrow(f); got != uint16(bits) {
					t.Fatalf("narrow(widen(%#04x)) = %#04x", bits, got)
				}
				// Around each value and around each midpoint to the next one is where rounding goes wrong.
				next := float64(format.widen(uint16(bits + 1)))
				for _, f := range []float32{f, float32((float64(f) + next) / 2)} {
					if f != f || math.IsInf(float64(f), 0) {
						continue
					}
					check(f)
					check(math.Nextafter32(f, float32(math.Inf(1))))
					check(math.Nextafter32(f, float32(math.Inf(-1))))
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 1 << 20 {
				if f := math.Float32frombits(random.Uint32()); f == f {
					check(f)
				}
			}
		})
	}
}

func TestKnownHalves(t *testing.T) {
	for _, tt := range []struct {
		bits uint16
		want float32
	}{
		{0x0000, 0},
		{0x3c00, 1},
		{0xc000, -2},
		{0x7bff, 65504},
		{0x0001, 0x1p-24},
		{0x0400, 0x1p-14},
		{0x3555, 0.333251953125},
		{0x7c00, float32(math.Inf(1))},
		{0xfc00, float32(math.Inf(-1))},
	} {
		if got := Float16Value(tt.bits); got != tt.want {
			t.Errorf("Float16Value(%#04x) = %g, want %g", tt.bits, got, tt.want)
		}
	}
	if got := BFloat16Value(0x3fc0); got != 1.5 {
		t.Errorf("BFloat16Value(0x3fc0) = %g, want 1.5", got)
	}
}
