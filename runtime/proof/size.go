package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// sizes returns the sizes to run: the allowed ones, else powers of two and the largest.
func (t *trial) sizes() []int {
	if allowed := t.batching.AllowedBatchSizes; len(allowed) > 0 {
		return allowed
	}
	var sizes []int
	most := t.batching.Largest()
	for size := 2; size < most; size *= 2 {
		sizes = append(sizes, size)
	}
	return append(sizes, most)
}

// fewRows are the sizes of the batches that are run to see whether rows are independent where more than one is too many
// to serve.
func (t *trial) fewRows() []int {
	if len(t.batching.AllowedBatchSizes) == 0 {
		return []int{2, 3}
	}
	if t.unit > 1 {
		return t.batching.AllowedBatchSizes[:1]
	}
	return t.batching.AllowedBatchSizes[1:min(2, len(t.batching.AllowedBatchSizes))]
}

// sighting is the result of the runs of one batch size.
type sighting struct {
	cost       time.Duration // the least device time
	difference float64
	wrong      string // the evidence against joining rows; "" for none
	memory     bool   // the device's memory does not suffice for this size
}

// runsOf returns how many full batches of a size are run, and how many with padding.
func (t *trial) runsOf(base *baseline, smaller, size int) (full, padded int) {
	full = repeats
	if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && base.cost > budget {
		full = 2 // to see whether rows are independent, not their cost
	}
	if len(t.batching.AllowedBatchSizes) > 0 && size > smaller+1 {
		padded = 1
	}
	return full, padded
}

// size runs batches of one size: full ones, with other mates and places for each row every time, and where sizes are
// padded up to this one, one with as much padding as there can be. smaller is the next smaller size.
func (t *trial) size(ctx context.Context, base *baseline, smaller, size int,
	compare comparison,
) (seen sighting, err error) {
	full, padded := t.runsOf(base, smaller, size)
	for k := range full + padded {
		different := size // rows; the rest is padding
		if k == full {
			different = smaller + 1
		}
		rows := make([]int, size)
		order := t.rng.Perm(len(base.sets))
		for i := range rows {
			rows[i] = order[min(i, different-1)%len(order)]
		}
		outputs, cost, err := t.run(ctx, t.join(base, rows), size, k == 0)
		if failed, is := errors.AsType[*catalog.ModelError](err); is {
			if engine.KindOf(failed) == engine.OutOfMemory {
				return sighting{memory: true}, nil
			}
			return sighting{wrong: fmt.Sprintf("a batch of %d rows fails: %v", size, failed.Err)}, nil
		}
		if err != nil {
			return sighting{}, err
		}
		if k == 1 || k > 1 && cost < seen.cost {
			seen.cost = cost
		}
		if size > t.unit && smaller <= t.unit && k == 0 && base.bucket == "" && !t.graph.Proven {
			t.decision.observe(base.outputs[0], outputs, t.unit, size)
			base.scale = nil
		}
		if compare == nil {
			continue
		}
		difference, wrong := compare(base, rows, outputs)
		if wrong != "" {
			return sighting{wrong: wrong}, nil
		}
		seen.difference = max(seen.difference, difference)
		if err := t.looksFurther(ctx, base, rows, outputs); err != nil {
			return seen, err
		}
	}
	return seen, nil
}
