package proof

import (
	"fmt"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// tolerance returns how far two answers to the same row may lie apart, relative to the largest magnitude among the
// answers.
func (t *trial) tolerance(d tensor.DType) float64 { return tolerated(t.batching.Tolerance, d) }

// tolerated returns the tolerance that the manifest states for floating point numbers, or one that suits their type
// where it states 0. Values that are not floating point numbers must be equal.
func tolerated(stated float64, d tensor.DType) float64 {
	if stated > 0 && d.IsFloat() {
		return stated
	}
	return tolerance(d)
}

// rough returns how far apart two answers may lie if rounding is to explain it: a hundred times the tolerance. The
// influence of rows on each other is mostly far more than that.
func (t *trial) rough(d tensor.DType) float64 { return rough(100, t.tolerance(d)) }

// rough returns so many times the tolerance, but never so much that any two numbers would do.
func rough(times, tolerance float64) float64 { return max(min(times*tolerance, 0.25), tolerance) }

// rounding is the largest difference seen that exceeds the tolerance and may be rounding.
type rounding struct {
	most  float64
	wrong string // where it was seen
}

func (r *rounding) note(far float64, wrong string) {
	if far > r.most {
		r.most, r.wrong = far, wrong
	}
}

// advice states the difference, and how to make the server accept it.
func (r *rounding) advice() string {
	return fmt.Sprintf("%s; that may be rounding alone: batching.tolerance: %g would accept it, and if you know that "+
		"rows do not influence each other, "+
		"batching.mode: on joins them", r.wrong, roundUp(r.most))
}

// roundUp returns a number of one digit (1, 2 or 5) that is at least a quarter above x.
func roundUp(x float64) float64 {
	x *= 1.25
	power := math.Pow10(int(math.Floor(math.Log10(x))))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= x {
			return digit * power
		}
	}
	return 10 * power
}
