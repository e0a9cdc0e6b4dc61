package cost

import "time"

const (
	// maxReach is how many times the largest known size the slope of the line is believed. Beyond, costs are
	// proportional.
	maxReach = 2
	// farApart is the ratio of neighbouring sizes from which the line through all sizes says more about the sizes in
	// between.
	farApart = 4
)

// table is the reference cost as a function of rows: non-decreasing points, and a line through them.
type table struct {
	points []point // ascending by rows; cost and high never decrease
	now    uint64  // when it was made
	fitted bool    // whether line is of these points
	line   line
}

type point struct {
	rows       int
	cost, high time.Duration
	used       uint64 // when a size that has this cost was measured last
}

func (t *table) reset(now uint64) { t.points, t.now, t.fitted = t.points[:0], now, false }

// append adds a point of more rows than the others. More rows never cost less: where medians say otherwise, by noise or
// because the device has become faster or slower since, the size that was measured last is believed, and the others
// take its cost.
func (t *table) append(p point) {
	last := len(t.points)
	t.points = append(t.points, p)
	from := last // the first point that takes p's cost
	for from > 0 && t.points[from-1].cost > p.cost {
		from--
		if t.points[from].used > p.used {
			p = t.points[from]
		}
	}
	for i := from; i < last+1 && from < last; i++ {
		p.rows = t.points[i].rows
		t.points[i] = p
	}
}

// levelHighs ends a table. If more rows are unlikely to exceed a time, so are fewer rows. (The other way round a single
// row that now and then takes long would make every batch look so.) It leaves each high above its cost, for costs do
// not decrease.
func (t *table) levelHighs() {
	for i := len(t.points) - 2; i >= 0; i-- {
		t.points[i].high = min(t.points[i].high, t.points[i+1].high)
	}
}

// search returns the index of the first point with at least that many rows.
func (t *table) search(rows int) int {
	lo, hi := 0, len(t.points)
	for lo < hi {
		if mid := (lo + hi) / 2; t.points[mid].rows < rows {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// at returns the cost of that many rows and a time that it is unlikely to exceed, in nanoseconds. There must be a
// point.
func (t *table) at(rows int) (cost, high float64, source Source) {
	i := t.search(rows)
	switch {
	case i == len(t.points):
		cost, high = t.above(rows)
		return cost, high, Regressed
	case t.points[i].rows == rows:
		p := &t.points[i]
		return float64(p.cost), float64(p.high), Measured
	case i == 0:
		cost, high = t.below(rows)
		return cost, high, Regressed
	}
	lo, hi := &t.points[i-1], &t.points[i]
	loCost, hiCost := float64(lo.cost), float64(hi.cost)
	part, whole := float64(rows-lo.rows), float64(hi.rows-lo.rows)
	high = float64(lo.high) + float64(hi.high-lo.high)*part/whole
	if hi.rows > farApart*lo.rows && len(t.points) > 2 {
		// Within the neighbours: the line need not go through them.
		cost = min(max(t.fit().at(rows), loCost), hiCost)
		return cost, max(high, 1.02*cost), Regressed
	}
	return loCost + (hiCost-loCost)*part/whole, high, Interpolated
}

// above extrapolates from the largest size by the slope of the line: the line itself need not meet that size's median.
// With a single size the slope is unknown. Then, as beyond maxReach, the cost is in proportion: an overestimate
// wherever batching pays at all.
func (t *table) above(rows int) (cost, high float64) {
	last := &t.points[len(t.points)-1]
	known := min(rows, maxReach*last.rows)
	cost = float64(last.cost) + float64(t.slope(last, float64(last.cost)/float64(last.rows))*float64(known-last.rows))
	if rows > known { // else the division might round the same cost down for one size and not for another
		cost = cost * float64(rows) / float64(known)
	}
	return cost, last.widened(cost)
}

// below extrapolates from the smallest size by the slope of the line. With a single size the slope is unknown, and
// fewer rows are said to cost the same.
func (t *table) below(rows int) (cost, high float64) {
	first := &t.points[0]
	cost = float64(first.cost) - float64(t.slope(first, 0)*float64(first.rows-max(rows, 1)))
	return cost, min(first.widened(cost), float64(first.high))
}

// slope returns the cost of a further row near p, or otherwise if it was never seen. It is at most p's cost per row,
// which would leave nothing for an execution as such.
func (t *table) slope(p *point, otherwise float64) float64 {
	if len(t.points) < 2 {
		return otherwise
	}
	return min(t.fit().beta, float64(p.cost)/float64(p.rows))
}

// widened returns the high of a cost that was extrapolated from p.
func (p *point) widened(cost float64) float64 {
	return 1.25 * cost * float64(p.high) / float64(p.cost)
}

// fit returns the line, which few tables are ever asked for.
func (t *table) fit() *line {
	if !t.fitted {
		t.line, t.fitted = regress(t.points, t.now), true
	}
	return &t.line
}
