package cost

import (
	"math/rand/v2"
	"testing"
	"time"
)

// benchCurve returns a curve of 64 sizes on a device that another curve shares, and samples for it that differ by up to
// 2.5 %.
func benchCurve() (c *Curve, samples []time.Duration) {
	var d Device
	d.Observe(Sample{Clock: 900, MaxClock: 1000})
	c = new(Curve)
	c.On(&d)
	other := new(Curve)
	other.On(&d)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 64 * 64 {
		sample := time.Duration(5e6+1e6*(1+i%64)) * time.Duration(975+rng.IntN(50)) / 1000
		samples = append(samples, sample)
		measure(c, 1+i%64, sample)
		measure(other, 1, 5*ms)
	}
	return c, samples
}

func BenchmarkSettle(b *testing.B) {
	c, samples := benchCurve()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Settle(Estimate{Rows: 1 + i%64}, samples[i%len(samples)])
		i++
	}
}

func BenchmarkEstimate(b *testing.B) {
	c, _ := benchCurve()
	var sparse Curve
	sparse.Inherit(c)
	sparse.given.points = sparse.given.points[:10]
	for _, bench := range []struct {
		name string
		c    *Curve
		rows int
	}{{"measured", c, 37}, {"beyond", c, 100}, {"inherited", &sparse, 5}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var sum time.Duration
			for b.Loop() {
				sum += bench.c.Estimate(bench.rows).Cost
			}
			if sum <= 0 {
				b.Fatal(sum)
			}
		})
	}
}

func BenchmarkMaxRows(b *testing.B) {
	c, _ := benchCurve()
	for b.Loop() {
		c.MaxRows(40*ms, 64, same)
	}
}
