// Package cost predicts the device time of an execution from measurements of earlier ones.
//
// Measurements are kept per size as if the device had been in its reference state, and a prediction scales them to the
// present state of the device:
//
//	estimate = reference(rows) × clock × cotenant × residual of the device × residual of the curve × waits
//
// reference is the median of a size that was measured, a line between or beyond such sizes where this one was not,
// another curve's estimate where nothing was, and Cold where there is nothing at all. See Device for the other factors.
//
// A recorded trace of events must lead to the same decisions on any processor. All arithmetic is therefore on integers,
// or is float64 with + - * / alone, which IEEE 754 rounds alike everywhere. A product that is added to something (or a
// quotient by a power of two, which compilers turn into one) is converted to float64 first: that keeps them from fusing
// the two into one instruction with another rounding. Logarithms are our own, for those of package math are assembly on
// some processors.
package cost

import (
	"sort"
	"time"
)

const (
	// Cold is the estimate for a model and shape without any measurement.
	Cold = 50 * time.Millisecond
	// MinSamples is how many measurements of a size make its median worth trusting.
	MinSamples = 3
	// ColdRows is the most rows an execution may have while the curve is cold.
	ColdRows = 4

	// longest is the bound above which times are not told apart, so that no sum or product here overflows. It is a day.
	longest = 24 * time.Hour
)

// Curve is the device time of one (model, version, shape, device class) as a function of the rows in an execution. Cost
// is a function of the batch size and never "elapsed over n" of a batch, which would credit a lone request with its
// mates' economies. The zero value is a cold curve on a device that never changes.
//
// Each execution calls Begin once, then exactly one of Settle and Abandon. Curves that share a device share the lock,
// too: not even estimates may be asked for concurrently, for curves keep the results.
type Curve struct {
	sizes    []*size // ascending by rows
	own      table   // of the sizes with MinSamples
	given    table   // another curve's, until there is an own one
	inFlight int     // executions begun while the curve was cold
	clock    uint64  // counts settlements, to tell how long ago a size was measured
	revision uint64  // counts changes of estimates but for the ones that the device counts
	drifts   int     // windows restarted because the cost had changed
	link     link    // to the device
}

// Estimate predicts the device time of an execution of that many rows. Neither Cost nor High ever decreases with rows.
func (c *Curve) Estimate(rows int) Estimate {
	t := &c.own
	if len(t.points) == 0 {
		t = &c.given
		if len(t.points) == 0 {
			return Estimate{Rows: rows, Cost: Cold, High: Cold, Source: Unmeasured}
		}
	}
	cost, high, source := t.at(rows)
	if t == &c.given {
		source = Inherited
	}
	if c.link.device != nil {
		scale, caution := c.link.published()
		cost *= scale
		high *= float64(scale * caution)
	}
	return Estimate{Rows: rows, Cost: duration(cost), High: duration(high), Source: source}
}

// AtLeast returns a cost that an execution of that many rows is not expected to undercut: that of the largest measured
// size that is no larger. It reports false where there is none; inherited estimates do not count.
func (c *Curve) AtLeast(rows int) (time.Duration, bool) {
	i := c.own.search(rows + 1)
	if i == 0 {
		return 0, false
	}
	least := float64(c.own.points[i-1].cost)
	if c.link.device != nil {
		scale, _ := c.link.published()
		least *= scale
	}
	return duration(least), true
}

// Revision changes whenever an estimate may have changed, by a measurement or by a change of the device's published
// state.
func (c *Curve) Revision() uint64 {
	if c.link.device == nil {
		return c.revision
	}
	return c.revision + c.link.device.revision
}

// IsCold reports whether the curve knows nothing: no size was measured often enough and nothing was inherited.
func (c *Curve) IsCold() bool { return c.largest() == 0 }

// largest returns the largest size that the estimates rest on, 0 if there is none.
func (c *Curve) largest() int {
	for _, t := range [...]*table{&c.own, &c.given} {
		if n := len(t.points); n > 0 {
			return t.points[n-1].rows
		}
	}
	return 0
}

// ColdInFlight reports whether an execution begun while the curve was cold has not ended yet.
func (c *Curve) ColdInFlight() bool { return c.inFlight > 0 }

// MaxRows returns the most rows whose execution is expected to cost at most budget, at most limit and at least as many
// as cost no more than one. A cold curve allows ColdRows; another, at most maxReach times the largest size it knows.
// padded maps rows to the size they execute as, and must not decrease.
func (c *Curve) MaxRows(budget time.Duration, limit int, padded func(int) int) int {
	if c.IsCold() {
		return max(1, min(limit, ColdRows))
	}
	limit = max(1, min(limit, maxReach*c.largest()))
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

// Abandon ends an execution that teaches nothing: it failed, or was not representative.
func (c *Curve) Abandon(e Estimate) {
	if e.Source == Unmeasured {
		c.inFlight--
	}
}

// Settle ends an execution with its measured device time. A measurement that is not positive is ignored.
//
// The deviation from the estimate is divided between the size, the curve and the device: residuals follow within a few
// executions and carry the change over to sizes and models that have not run since, medians take over later. Both learn
// from the part that the other left unexplained, for a sample is divided by all factors before it enters its window;
// learning both from the raw time would count every change twice.
func (c *Curve) Settle(e Estimate, measured time.Duration) {
	c.Abandon(e)
	if measured <= 0 {
		return
	}
	c.clock++
	s := c.size(e.Rows)
	s.used = c.clock
	sample, learn := min(measured, longest), true
	if c.link.device != nil {
		sample, learn = c.observe(s, sample)
	}
	if !learn {
		return
	}
	if s.take(sample) {
		c.drifts++
	}
	if s.isNews() {
		c.rebuild()
	}
}

// observe teaches the device and the link to it with an execution, and returns the time that it would have taken on the
// device in its reference state. It reports false where the device was not in a state that reference costs can be
// learnt in, unless the size is so new that a doubtful sample is better than none.
func (c *Curve) observe(s *size, measured time.Duration) (reference time.Duration, learn bool) {
	scale := c.link.exact()
	if i := c.own.search(s.rows); i < len(c.own.points) && c.own.points[i].rows == s.rows {
		if c.link.settle(float64(measured)/float64(c.own.points[i].cost), scale) {
			c.revision++
		}
	}
	return duration(float64(measured) / scale), c.link.device.now.isClean() || s.n < settled
}

// stranger is the factor by which another curve's measurements are overestimated, to be on the safe side.
const stranger = 1.1

// Inherit makes a curve that is cold answer with a snapshot of another's estimates, such as those of the previous
// version, raised by a tenth, until it has measurements of its own. A curve that has them is left alone.
func (c *Curve) Inherit(from *Curve) { c.InheritScaled(from, 1) }

// InheritScaled is Inherit from a curve whose executions take another multiple of time, for instance of another shape:
// factor is the ratio expected of ours to its.
func (c *Curve) InheritScaled(from *Curve, factor float64) {
	if len(c.own.points) > 0 || from.IsCold() || !(factor > 0) {
		return
	}
	points, scale := from.own.points, stranger*factor*exp(from.link.residual)
	if len(points) == 0 {
		points, scale = from.given.points, factor // raised already
	}
	c.given.reset(0)
	for _, p := range points {
		p.cost, p.high = duration(float64(p.cost)*scale), duration(1.25*scale*float64(p.high))
		p.used = 0 // all count alike
		c.given.points = append(c.given.points, p)
	}
	c.link.clock, c.link.coTenant = from.link.clock, from.link.coTenant
	if c.link.device != nil {
		c.link.show()
	}
	c.revision++
}

// Estimate is a prediction, and the token that ends with Settle or Abandon.
type Estimate struct {
	Rows int
	// Cost is the time that the execution is expected to take: the median. Charge it and choose sizes by it.
	Cost time.Duration
	// High is a time that it is unlikely to exceed, about the 95th percentile. Judge by it whether a deadline can be
	// met.
	High   time.Duration
	Source Source
}

// Known reports whether the estimate rests on measurements of this very model, version and shape. One that does not
// must refuse nothing.
func (e Estimate) Known() bool { return e.Source < Inherited }

// Source says what an estimate rests on.
type Source uint8

// The sources, from best to worst.
const (
	Measured     Source = iota // the median of this size
	Interpolated               // the straight line between two measured sizes
	Regressed                  // the slope of a line through all measured sizes
	Inherited                  // another curve's estimate
	Unmeasured                 // nothing: the cold default
)

// String returns measured, interpolated, regressed, inherited or unmeasured.
func (s Source) String() string {
	return [...]string{"measured", "interpolated", "regressed", "inherited", "unmeasured"}[s]
}

// duration returns ns as a time of at least 1 ns that other times can be added to without overflow. It truncates, as
// the same everywhere as the float64 is.
func duration(ns float64) time.Duration { return time.Duration(min(max(ns, 1), float64(longest))) }
