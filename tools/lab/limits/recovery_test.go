package main

import (
	"math"
	"testing"

	"github.com/weftserve/weft/internal/loadgen"
)

// partsOf makes parts of half a second of the answers in time in each.
func partsOf(goodput ...float64) (parts []loadgen.Point) {
	for i, g := range goodput {
		parts = append(parts, loadgen.Point{AtS: float64(i+1) / 2, GoodputPS: g})
	}
	return parts
}

func TestAfterSlowdown(t *testing.T) {
	for name, tt := range map[string]struct {
		after []float64
		want  float64
	}{
		"at once":                    {[]float64{96, 96, 96}, 0.5},
		"later":                      {[]float64{10, 94, 95, 100}, 1.5},
		"one good part tells little": {[]float64{100, 10, 95, 100}, 1.5},
		"never":                      {[]float64{10, 20, 94, 100}, math.Inf(1)},
	} {
		before, during, took := afterSlowdown(partsOf(append([]float64{100, 100, 20, 30}, tt.after...)...), 1, 2)
		if before != 100 || during != 25 || took != tt.want {
			t.Errorf("%s: %g before, %g while slow, back after %g s; want 100, 25, %g", name, before, during, took, tt.want)
		}
	}
}
