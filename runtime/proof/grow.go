package proof

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// comparison returns how far the outputs of a batch of the baseline's rows are from those of the rows alone, or the
// fault.
type comparison func(b *baseline, rows []int, outputs []tensor.Tensor) (difference float64, wrong string)

// grow runs batches of growing size, up to the one that exceeds the budget of an execution. With a comparison the
// verdict is whether rows in them answer as they do alone; without one the runs only warm up, and a failure ends them.
func (t *trial) grow(ctx context.Context, base *baseline, sizes []int, compare comparison) (Verdict, error) {
	v := Verdict{Batched: true, Most: 1}
	if base == nil {
		return v, nil
	}
	var tried []string
	smaller := 0
	var growth memoryGrowth
	var curve rowCosts
	measured := t.batching.MaxBatchSize == 0 && len(t.batching.AllowedBatchSizes) == 0
	growth.saw(t.runner.Memory(), t.unit)
	t.plan.next(t.growRuns(base, sizes))
	for _, size := range sizes {
		if t.spent > trialTime || size*base.bytes > trialBytes {
			v.end = fmt.Sprintf("; %d rows would exceed the memory or the time that a proof may take", size)
			break
		}
		seen, err := t.size(ctx, base, smaller, size, compare)
		if first := seen; err == nil && measured && curve.harm(size, first.cost) {
			// Or the machine paused: then this size costs less the next time.
			seen, err = t.size(ctx, base, smaller, size, compare)
			seen.cost, seen.difference = min(first.cost, seen.cost), max(first.difference, seen.difference)
		}
		if err != nil {
			return v, err
		}
		if seen.wrong != "" && compare != nil {
			return t.unproven("%s", seen.wrong), nil
		}
		if seen.wrong != "" || seen.memory {
			// Trusted sizes stay allowed: of one that ran out of memory the scheduler knows, as of any later batch that
			// does, and tries it again. Sizes that are not proven are not used, and nothing is proven any more once
			// requests come.
			effect := "batches of so many rows are formed all the same, because batching.mode is on or their rows are " +
				"proven independent by structure"
			v.end = fmt.Sprintf("; the device's memory does not suffice for %d rows", size)
			if compare != nil && !t.graph.Proven {
				effect = fmt.Sprintf("no batch has more than %d rows; to have more proven, unload the version and load "+
					"it again when memory is free", v.Most)
				v.end += " (larger ones are tried when the version is loaded again)"
			}
			t.subject.Log.Warn("batch size failed in warm-up", "event", "batch_size_failed",
				"model", t.subject.Model, "version", t.subject.Version, "device", t.subject.Device,
				"rows", size, "cause", cmp.Or(seen.wrong, "out of memory"), "effect", effect)
			break
		}
		v.Difference = max(v.Difference, seen.difference)
		v.Most, smaller = size, size
		curve.saw(size, seen.cost)
		if size > t.unit {
			growth.saw(t.runner.Memory(), size)
			v.RowMemory = growth.perRow
		}
		tried = append(tried, strconv.Itoa(size))
		if len(t.batching.AllowedBatchSizes) > 0 {
			v.Allowed = append(v.Allowed, size)
		}
		if budget := time.Duration(t.batching.MaxBatchCost); budget > 0 && seen.cost > budget && base.cost <= budget {
			v.end, v.dear = fmt.Sprintf("; more rows would exceed batching.max_batch_cost (%v)", budget), true
			break
		}
		if measured && curve.ends(base.bytes) {
			v.end = "; larger ones are not worth it"
			break
		}
	}
	v.Useful = curve.useful()
	if len(tried) == 0 && compare != nil && !t.graph.Proven {
		return t.unproven("no batch could be tried%s", v.end), nil
	}
	v.tried = strings.Join(tried, ", ")
	return v, nil
}

// The size that batches have where the manifest names none. Larger batches hold the device for longer, which costs
// others. So usualRows are enough unless a row costs clearly less in larger ones, and what is measured at load varies.
// Where usualRows take less than matters, they cost less than what else their requests take.
const (
	usualRows  = 64
	matters    = time.Millisecond
	cheaper    = 0.95     // the best cost of a row where a larger batch is worth it, by that in a smaller one
	dearer     = 1.25     // the cost of a row where larger batches do harm, by the best
	usualBytes = 32 << 20 // of inputs and outputs, which no batch beyond usualRows exceeds
)

// rowCosts is what a row costs in batches of growing sizes.
type rowCosts struct {
	sizes []int
	costs []time.Duration // of a row
	best  time.Duration
}

// saw follows a batch of more rows than any before.
func (c *rowCosts) saw(size int, cost time.Duration) {
	row := cost / time.Duration(size)
	if len(c.costs) == 0 || row < c.best {
		c.best = row
	}
	c.sizes, c.costs = append(c.sizes, size), append(c.costs, row)
}

// harm reports whether batches of a size and a cost make a row clearly dearer than the best do.
func (c *rowCosts) harm(size int, cost time.Duration) bool {
	return c.best > 0 && float64(cost/time.Duration(size)) > dearer*float64(c.best)
}

// harms reports whether the n-th size does harm.
func (c *rowCosts) harms(n int) bool { return c.harm(1, c.costs[n]) }

// ends reports whether larger batches than the last need not be tried, for a row of so many bytes.
func (c *rowCosts) ends(bytes int) bool {
	last := len(c.sizes) - 1
	return last >= 0 && c.sizes[last] >= usualRows &&
		(c.costs[last]*usualRows < matters || c.harms(last) || 2*c.sizes[last]*bytes > usualBytes)
}

// useful returns the size of batches that is worth it; 0: not known.
func (c *rowCosts) useful() int {
	n := len(c.sizes)
	if n == 0 {
		return 0
	}
	if c.costs[n-1]*usualRows < matters {
		return usualRows
	}
	for i, size := range c.sizes {
		if size >= usualRows && cheaper*float64(c.costs[i]) <= float64(c.best) {
			return size
		}
	}
	for n > 1 && (c.sizes[n-1] > usualRows || c.harms(n-1)) {
		n--
	}
	if n == len(c.sizes) { // nothing says that larger ones would do harm: the trial ended for other reasons
		return usualRows
	}
	return c.sizes[n-1]
}

// memoryGrowth learns, while ever larger batches are tried, how much device memory a further row of an execution takes:
// the most that one took between two sizes, since an operator's need may grow in steps.
type memoryGrowth struct {
	rows   int // of the largest batch so far; 0: none was seen
	peak   int64
	perRow int64 // 0: not known
}

// saw follows a batch of so many rows, more than any before.
func (g *memoryGrowth) saw(m engine.Memory, rows int) {
	if !m.Known {
		return
	}
	if g.rows > 0 {
		g.perRow = max(g.perRow, (m.Peak-g.peak)/int64(rows-g.rows))
	}
	g.rows, g.peak = rows, m.Peak
}
