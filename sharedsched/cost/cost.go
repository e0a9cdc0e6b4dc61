// Package cost predicts the device time of an execution from measurements of earlier ones.
package cost

import (
	"slices"
	"sort"
	"time"
)

const (
	// Cold is the estimate for a model and shape of which nothing was measured.
	Cold = 50 * time.Millisecond
	// MinSamples is how many measurements of a size make its median worth trusting.
	MinSamples = 3
	// ColdRows is the most rows an execution may have while the curve is cold.
	ColdRows = 4

	window   = 11  // samples kept per size: a median over it follows a change after six
	maxSizes = 128 // sizes kept per curve
)

// Source tells what an estimate rests on.
type Source uint8

// The sources, from best to worst.
const (
	Measured     Source = iota // the median of this size
	Interpolated               // between, or beyond, sizes that were measured
	Unmeasured                 // nothing: the cold default
)

// String returns measured, interpolated or unmeasured.
func (s Source) String() string { return [...]string{"measured", "interpolated", "unmeasured"}[s] }

// Curve is the device time of one (model, version, shape, device class) as a function of the rows in an execution. Cost is a
// function of the batch size and never "elapsed over n" of a batch, which would credit a lone request with its mates'
// economies. The zero value is a cold curve.
//
// Each execution calls Begin once, then exactly one of Settle and Abandon.
type Curve struct {
	sizes    []*size // ascending by rows
	trusted  []point // sizes with MinSamples, their medians made non-decreasing by rebuild
	inFlight int     // executions begun while the curve was cold
	clock    uint64  // counts settlements, to find the size that was not used for longest
	revision uint64  // counts changes of trusted
}

type size struct {
	rows   int
	ring   [window]time.Duration // samples by age
	sorted [window]time.Duration // the same by value
	n      int                   // samples ever taken
	median time.Duration
	used   uint64
}

type point struct {
	rows int
	cost time.Duration
	used uint64 // when a size that has this cost was measured last
}

// Estimate is a prediction, and the token that ends with Settle or Abandon.
type Estimate struct {
	Rows   int
	Cost   time.Duration
	Source Source
}

// Estimate predicts the device time of an execution of so many rows. It never decreases with rows.
func (c *Curve) Estimate(rows int) Estimate {
	if len(c.trusted) == 0 {
		return Estimate{rows, Cold, Unmeasured}
	}
	i, exact := slices.BinarySearchFunc(c.trusted, rows, func(p point, r int) int { return p.rows - r })
	switch {
	case exact:
		return Estimate{rows, c.trusted[i].cost, Measured}
	case i == 0:
		// Fewer rows than were ever measured cannot cost more.
		return Estimate{rows, c.trusted[0].cost, Interpolated}
	case i == len(c.trusted):
		// Beyond the largest size in proportion: an overestimate wherever batching pays at all.
		last := c.trusted[i-1]
		return Estimate{rows, last.cost * time.Duration(rows) / time.Duration(last.rows), Interpolated}
	}
	lo, hi := c.trusted[i-1], c.trusted[i]
	cost := lo.cost + (hi.cost-lo.cost)*time.Duration(rows-lo.rows)/time.Duration(hi.rows-lo.rows)
	return Estimate{rows, cost, Interpolated}
}

// AtLeast returns a cost that an execution of so many rows is not expected to undercut: that of the largest measured size that
// is no larger. It reports false where there is none.
func (c *Curve) AtLeast(rows int) (time.Duration, bool) {
	i, exact := slices.BinarySearchFunc(c.trusted, rows, func(p point, r int) int { return p.rows - r })
	if !exact {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return c.trusted[i].cost, true
}

// Revision changes whenever an estimate may have changed.
func (c *Curve) Revision() uint64 { return c.revision }

// IsCold reports whether no size has been measured often enough.
func (c *Curve) IsCold() bool { return len(c.trusted) == 0 }

// ColdInFlight reports whether an execution begun while the curve was cold has not ended yet.
func (c *Curve) ColdInFlight() bool { return c.inFlight > 0 }

// MaxRows returns the most rows whose execution is expected to cost at most budget, at most limit and at least as many as cost no
// more than one. A cold curve allows ColdRows; a measured one, at most twice the largest size it has seen. padded maps rows to
// the size they execute as, and must not decrease.
func (c *Curve) MaxRows(budget time.Duration, limit int, padded func(int) int) int {
	if c.IsCold() {
		return max(1, min(limit, ColdRows))
	}
	limit = max(1, min(limit, 2*c.trusted[len(c.trusted)-1].rows))
	if budget <= 0 {
		return limit
	}
	fits := func(rows int) bool {
		size := padded(rows)
		return size == padded(1) || c.Estimate(size).Cost <= budget
	}
	return sort.Search(limit, func(i int) bool { return !fits(i + 1) })
}

// Begin returns the estimate of an execution that starts now.
func (c *Curve) Begin(rows int) Estimate {
	e := c.Estimate(rows)
	if e.Source == Unmeasured {
		c.inFlight++
	}
	return e
}

// Abandon ends an execution that taught nothing: it failed, or was not representative.
func (c *Curve) Abandon(e Estimate) {
	if e.Source == Unmeasured {
		c.inFlight--
	}
}

// Settle ends an execution with its measured device time. A measurement that is not positive is ignored.
func (c *Curve) Settle(e Estimate, measured time.Duration) {
	c.Abandon(e)
	if measured <= 0 {
		return
	}
	c.clock++
	s := c.size(e.Rows)
	s.used = c.clock
	before := s.median
	s.take(measured)
	if s.n >= MinSamples && (s.n == MinSamples || s.median != before) {
		c.rebuild()
	}
}

// size finds the record of a size or makes one. If there are too many it takes the place of one that is not trusted yet, the
// newest of those, so that the others get their samples together; if all are trusted, of the one not used for longest.
func (c *Curve) size(rows int) *size {
	i, ok := slices.BinarySearchFunc(c.sizes, rows, func(s *size, r int) int { return s.rows - r })
	if ok {
		return c.sizes[i]
	}
	if len(c.sizes) == maxSizes {
		out := 0
		for j, s := range c.sizes {
			if s.givesWayBefore(c.sizes[out]) {
				out = j
			}
		}
		trusted := c.sizes[out].n >= MinSamples
		c.sizes = slices.Delete(c.sizes, out, out+1)
		if out < i {
			i--
		}
		if trusted {
			c.rebuild()
		}
	}
	s := &size{rows: rows}
	c.sizes = slices.Insert(c.sizes, i, s)
	return s
}

func (s *size) givesWayBefore(t *size) bool {
	if s.n != t.n && (s.n < MinSamples || t.n < MinSamples) {
		return s.n < t.n
	}
	if s.n < MinSamples {
		return s.used > t.used
	}
	return s.used < t.used
}

// rebuild derives the trusted points. More rows never cost less: where medians say otherwise, by noise or because the device has
// become faster or slower since, the size that was measured last is believed, and the others take its cost.
func (c *Curve) rebuild() {
	c.revision++
	c.trusted = c.trusted[:0]
	for _, s := range c.sizes {
		if s.n < MinSamples {
			continue
		}
		p := point{s.rows, s.median, s.used}
		from := len(c.trusted) // the first point that takes p's cost
		for from > 0 && c.trusted[from-1].cost > p.cost {
			from--
			if before := c.trusted[from]; before.used > p.used {
				p.cost, p.used = before.cost, before.used
			}
		}
		c.trusted = append(c.trusted, point{rows: s.rows})
		for i := from; i < len(c.trusted); i++ {
			c.trusted[i].cost, c.trusted[i].used = p.cost, p.used
		}
	}
}

// Entry describes one size of a curve.
type Entry struct {
	Rows    int
	Median  time.Duration
	Samples int // in the window
	Trusted bool
}

// Entries returns what was measured, ascending by rows.
func (c *Curve) Entries() []Entry {
	entries := make([]Entry, len(c.sizes))
	for i, s := range c.sizes {
		entries[i] = Entry{s.rows, s.median, min(s.n, window), s.n >= MinSamples}
	}
	return entries
}

// take adds a sample, in the place of the oldest if the window is full, and brings the median up to date: the lower of two
// middles. The values stay sorted, for sorting them anew each time cost more than all the rest of a settlement.
func (s *size) take(sample time.Duration) {
	n := min(s.n, window)
	out := n // where a value leaves the sorted ones
	if n == window {
		out, _ = slices.BinarySearch(s.sorted[:], s.ring[s.n%window])
	} else {
		n++
	}
	i := out
	for ; i > 0 && s.sorted[i-1] > sample; i-- {
		s.sorted[i] = s.sorted[i-1]
	}
	for ; i < n-1 && s.sorted[i+1] < sample; i++ {
		s.sorted[i] = s.sorted[i+1]
	}
	s.sorted[i] = sample
	s.ring[s.n%window] = sample
	s.n++
	s.median = s.sorted[(n-1)/2]
}
