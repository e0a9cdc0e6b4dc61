package cost

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestReplayIsExact runs a fixed history and compares a hash of all estimates with the one it had elsewhere. It fails
// where a compiler fuses a product and a sum, as it may for arm64 or GOAMD64=v3.
func TestReplayIsExact(t *testing.T) {
	const want uint64 = 0x2bf7968dc7b4ecda
	rng := rand.New(rand.NewPCG(1, 2))
	var d Device
	curves := make([]Curve, 3)
	for i := range curves {
		curves[i].On(&d)
	}
	hash := fnv.New64a()
	var buf [8]byte
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(buf[:], v)
		hash.Write(buf[:])
	}
	slow := 1000
	for i := range 20000 {
		if i%500 == 0 {
			slow = 900 + rng.IntN(600)
		}
		if i%40 == 0 {
			d.Observe(Sample{
				Clock: 700 + rng.IntN(500), MaxClock: 1000, Idle: rng.IntN(5) == 0,
				Throttled: rng.IntN(8) == 0, CoTenant: max(0, rng.IntN(600)-300), Expired: rng.IntN(50) == 0,
			})
		}
		c := &curves[rng.IntN(len(curves))]
		rows := 1 + rng.IntN(12)*rng.IntN(12)
		e := c.Begin(rows)
		c.Settle(e, time.Duration((2000+300*rows)*slow)*time.Duration(900+rng.IntN(200)))
		if i%1000 == 999 {
			c.On(&d)
			c.Inherit(&curves[0])
		}
		put(uint64(e.Cost))
		put(uint64(e.High))
		// Nanoseconds would hide most differences in rounding.
		if len(c.own.points) > 2 {
			cost, high, _ := c.own.at(1 + rng.IntN(300))
			for _, v := range []float64{
				cost, high, c.own.fit().alpha, c.own.fit().beta, c.link.exact(), d.now.residual,
				ln(high / cost),
			} {
				put(math.Float64bits(v))
			}
		}
	}
	if got := hash.Sum64(); got != want {
		t.Errorf("hash %#x, want %#x: results differ from those on other processors, or the model of cost was changed",
			got, want)
	}
}

func TestLogarithms(t *testing.T) {
	for x := -maxLn; x <= maxLn; x += 0.001 {
		if got := ln(math.Exp(x)); math.Abs(got-x) > 1e-6 {
			t.Errorf("ln(e^%v) = %v", x, got)
		}
	}
	for _, ratio := range []float64{0, 1e-9, 2, math.Inf(1)} {
		if got := ln(ratio); math.Abs(math.Abs(got)-maxLn) > 1e-6 {
			t.Errorf("ln(%v) = %v, want the limit", ratio, got)
		}
	}
	for x := -3.; x <= 3; x += 0.01 {
		if got := exp(x); math.Abs(got/math.Exp(x)-1) > 1e-4*min(1, x*x)+1e-9 {
			t.Errorf("exp(%v) = %v, want %v", x, got, math.Exp(x))
		}
	}
}
