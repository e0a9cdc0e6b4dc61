package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
		if measured && curve.ends() {
			v.end = "; in larger batches a row costs no less"
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

// The size that batches have where the manifest names none. What larger batches gain falls with their size, and what
// they cost others grows with it: they hold the device for longer. Up to usualRows all are as good that cost about the
// same by the row. Beyond, each doubling must make a row cheaper. Where usualRows take less than matters, they cost
// less than what else their requests take.
const (
	usualRows = 64
	matters   = time.Millisecond
	dearer    = 1.1  // the cost of a row where larger batches do harm, by that in the best one
	cheaper   = 0.95 // the cost of a row where larger batches are worth it, by that in one of half the size
)

// rowCosts is what a row costs in batches of growing sizes.
type rowCosts struct {
	sizes []int
	costs []time.Duration // of a row
}

// saw follows a batch of more rows than any before.
func (c *rowCosts) saw(size int, cost time.Duration) {
	c.sizes, c.costs = append(c.sizes, size), append(c.costs, cost/time.Duration(size))
}

// pays reports whether the last of n sizes makes a row cheaper than the one before it.
func (c *rowCosts) pays(n int) bool {
	return n > 1 && float64(c.costs[n-1]) < cheaper*float64(c.costs[n-2])
}

// ends reports whether larger batches than the last need not be tried.
func (c *rowCosts) ends() bool {
	n := len(c.sizes)
	return n > 0 && c.sizes[n-1] >= usualRows && (!c.pays(n) || c.costs[n-1]*usualRows < matters)
}

// useful returns the largest size that is worth it; 0: not known.
func (c *rowCosts) useful() int {
	n := len(c.sizes)
	for n > 1 && c.sizes[n-1] > usualRows && !c.pays(n) {
		n--
	}
	if n == 0 || c.costs[n-1]*usualRows < matters {
		return min(n, 1) * usualRows
	}
	best := slices.Min(c.costs[:n])
	for float64(c.costs[n-1]) > dearer*float64(best) {
		n--
	}
	if n == len(c.sizes) { // nothing says that larger ones would do harm, where the trial ended for other reasons
		return max(usualRows, c.sizes[n-1])
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
