package cost

import "time"

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
