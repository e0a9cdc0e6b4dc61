package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
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

// roundingBound is how far apart two answers may lie for the proof to look whether rounding explains it. More denies
// batching.
const roundingBound = 1e-3

// rounding is the largest difference seen that exceeds the tolerance and may be rounding.
type rounding struct {
	most  float64
	wrong string // where it was seen
	// open: the rows of the latest batch with such a difference were not run next to others yet.
	open   bool
	unsure bool // those of some batch could not be
	meets  bool // a row was answered otherwise for its mates
}

func (r *rounding) note(far float64, wrong string) {
	r.open = true
	if far > r.most {
		r.most, r.wrong = far, wrong
	}
}

// against states the difference if it denies batching, and how to make the server accept it; "" if it does not.
func (r *rounding) against() string {
	if r.most == 0 || r.most <= roundingBound && !r.meets && !r.open && !r.unsure {
		return ""
	}
	why := "that may be rounding alone"
	if r.meets {
		why = "that is no rounding, because it changes with the other rows of the batch"
	}
	return fmt.Sprintf("%s; %s: batching.tolerance: %g would accept it, and if you know that rows do not influence "+
		"each other, batching.mode: on joins them", r.wrong, why, roundUp(r.most))
}

// accepted says why differences beyond the tolerance are accepted; "" if there are none.
func (r *rounding) accepted() string {
	if r.most == 0 {
		return ""
	}
	return "; what is beyond the tolerance is rounding of kernels for other sizes: a row is answered alike, bit for " +
		"bit, whichever rows it is next to in a batch of one size"
}

// looksFurther runs rows of a batch whose answers differ a little from those of rows alone once more, next to other
// rows. Rounding depends on the size of a batch and the place of a row, but not on its mates: a row whose answer
// changes by one bit meets them. Rows are numbered at random, and of each two one stays where it is while the other
// changes, both ways: they differ in some bit of their numbers.
func (t *trial) looksFurther(ctx context.Context, b *baseline, rows []int, outputs []tensor.Tensor) error {
	r := &t.rounding
	if !r.open || r.meets || r.most > roundingBound {
		return nil
	}
	r.open = false
	if len(b.sets) < 2 || len(rows) < 2 {
		r.unsure = true
		return nil
	}
	numbers, stays := t.rng.Perm(len(rows)), make([]bool, len(rows))
	for bit := range bits.Len(uint(len(rows) - 1)) {
		for _, side := range []int{0, 1} {
			for i, n := range numbers {
				stays[i] = n>>bit&1 == side
			}
			if err := t.besideOthers(ctx, b, rows, outputs, stays); err != nil || r.meets || r.unsure {
				return err
			}
		}
	}
	return nil
}

// besideOthers runs the rows that stay next to other ones of the baseline, and compares their answers bit by bit.
func (t *trial) besideOthers(ctx context.Context, b *baseline, rows []int, outputs []tensor.Tensor,
	stays []bool,
) error {
	others := slices.Clone(rows)
	for i := range others {
		if !stays[i] {
			others[i] = (rows[i] + 1 + t.rng.IntN(len(b.sets)-1)) % len(b.sets)
		}
	}
	t.halved = false
	again, _, err := t.run(ctx, t.join(b, others), len(others), true)
	if failed, is := errors.AsType[*catalog.ModelError](err); is {
		t.rounding.unsure = engine.KindOf(failed) == engine.OutOfMemory
		t.rounding.meets = !t.rounding.unsure // for the model takes each of them alone
		return nil
	}
	if err != nil || t.halved {
		t.rounding.unsure = true
		return err
	}
	for o := range outputs {
		dim := t.decision.Signature.Outputs[o].BatchDim
		for i := range rows {
			if stays[i] && dim != tensor.NoBatch && (!again[o].Shape.HasRows(dim, len(rows)) ||
				!bytes.Equal(again[o].Row(dim, i).Data, outputs[o].Row(dim, i).Data)) {
				t.rounding.meets = true
				return nil
			}
		}
	}
	return nil
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
