package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// alone runs rows alone until it finds made-up data that the model takes. It returns nil and the model's last error
// when the model takes none, nil and no error when every row would be too large, and any other error as it is.
func (t *trial) alone(ctx context.Context) (found *baseline, refused *catalog.ModelError, err error) {
	rows := sampleRows
	if t.decision.Against != "" {
		rows = repeats
	}
	for _, p := range palettes {
		for _, extent := range t.extents() {
			if t.spent > trialTime {
				return found, refused, nil
			}
			b, err := t.baseline(ctx, samples(t.decision.Signature, rows, extent, p, t.rng))
			if failed, is := errors.AsType[*catalog.ModelError](err); is {
				refused = failed
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			b.palette, b.extent = p, extent
			switch {
			case t.decision.Against != "" || b.against == "" && b.silent == 0:
				return b, nil, nil
			case found == nil || b.betterThan(found):
				found = b
			}
			break // the model takes this extent; other data may show more
		}
	}
	return found, refused, nil
}

// mostFixed is how large a row of fixed size may be to be made up. A faulty signature may say any size.
const mostFixed = 1 << 30

// extents returns the sizes to try for open dimensions, without sizes that make a row too large.
func (t *trial) extents() []int64 {
	all, most := t.decision.extents(), int64(trialBytes/sampleRows)
	if !hasExtent(t.decision.Signature) {
		all, most = slices.Clone(extents[:1]), mostFixed
	}
	return slices.DeleteFunc(all, func(extent int64) bool { return sampleBytes(t.decision.Signature, extent) > most })
}

// baseline runs every set alone.
func (t *trial) baseline(ctx context.Context, sets [][]tensor.Tensor) (*baseline, error) {
	b := &baseline{sets: sets, unit: t.unit}
	t.plan.next(len(sets))
	for k, set := range sets {
		outputs, cost, err := t.single(ctx, set, k == 0)
		if err != nil {
			return nil, err
		}
		if k == 1 || k > 1 && cost < b.cost {
			b.cost = cost
		}
		b.bytes = max(b.bytes, BytesOf(set)+BytesOf(outputs)/t.unit)
		b.outputs = append(b.outputs, outputs)
		if budget := time.Duration(t.batching.MaxBatchCost); k+1 >= repeats && budget > 0 && b.cost > budget {
			// Too slow for batches of any size.
			b.sets = sets[:k+1]
			break
		}
	}
	if !differ(b.sets) {
		b.against = "the model takes no made-up input but a constant one, which shows nothing"
	}
	for o := range t.decision.Signature.Outputs {
		rows := make([]tensor.Tensor, len(b.outputs))
		some := false
		for k := range rows {
			rows[k] = b.outputs[k][o]
			some = some || finite(rows[k])
		}
		if !some {
			b.against = cmp.Or(b.against, fmt.Sprintf("output %q has no finite number for any made-up input, which "+
				"shows nothing", t.decision.Signature.Outputs[o].Name))
		}
		telling, silent := varying(rows)
		b.telling += telling
		b.silent += silent
	}
	return b, nil
}
