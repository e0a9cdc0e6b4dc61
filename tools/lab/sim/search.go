package sim

import (
	"math"
	"time"
)

// Effort says how much is simulated to find a figure.
type Effort struct {
	Span      time.Duration // virtual time of arrivals in each run
	Seeds     int           // runs for each figure, of each draw of the models
	Precision float64       // relative, of the load found by a search
	First     uint64        // of the seeds, which follow each other; 0 counts as 1
}

// seed returns the i-th seed.
func (e Effort) seed(i int) uint64 { return max(e.First, 1) + uint64(i) }

// The usual efforts.
var (
	Full  = Effort{Span: 20 * time.Second, Seeds: 2, Precision: 0.01}
	Quick = Effort{Span: 5 * time.Second, Seeds: 1, Precision: 0.04}
)

const (
	// attained is the share of requests that must be on time for a load to count as carried.
	attained = 0.99
	// lowest and highest bound the search for a load.
	lowest, highest = 1.0 / 64, 64.0
	// stride is the factor by which the search for a load goes at first.
	stride = 1.25
)

// G99 returns the highest load, in units of the workload's fluid capacity, at which a policy answers 99 % of the
// requests on time, over all seeds together; 0 if there is none of at least 1/64. Where the share on time is not
// monotone in the load, it is one of the loads at which it crosses 99 %. For a workload whose models were drawn several
// times it is the geometric mean over the draws. On each draw the policy is the member of the family that does best in
// training (tune); the names of these members are returned too.
func G99(w *Workload, f *Family, e Effort) (load float64, tuned []string) {
	var found []float64
	for _, draw := range w.draws() {
		who, near := tune(&draw, f, e.training(), (*trial).g99Above)
		if near == 0 {
			near = 1
		}
		found, tuned = append(found, newTrial(&draw, e).g99(who, near)), append(tuned, who.Name)
	}
	return geomean(found), tuned
}

// geomean returns the geometric mean, 0 if one of the values is.
func geomean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// bracket finds where ok turns from true to false: first by strides, then by bisection.
func bracket(ok func(float64) bool, from, precision float64) float64 {
	first := ok(from)
	low, high := from, from // ok, and not ok
	for now := first; now == first; {
		at := low * stride
		if !first {
			at = high / stride
		}
		if at < lowest {
			return 0
		}
		if at > highest {
			return highest
		}
		if now = ok(at); now {
			low = at
		} else {
			high = at
		}
	}
	for high/low > 1+precision {
		if mid := (low + high) / 2; ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
