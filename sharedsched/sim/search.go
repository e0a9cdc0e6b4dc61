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
// times it is the geometric mean over the draws.
func G99(w *Workload, p *Maker, e Effort) (float64, error) {
	g, _, err := FamilyG99(w, &Family{Members: []Maker{*p}}, e)
	return g, err
}

// FamilyG99 is G99 of a family that is tuned to the workload: on each draw, of the member that did best in training
// (tune). It also returns the names of these members, by draw.
func FamilyG99(w *Workload, f *Family, e Effort) (float64, []string, error) {
	var found []float64
	var tuned []string
	for _, draw := range w.draws() {
		who, near, err := tune(&draw, f, e)
		if err != nil {
			return 0, nil, err
		}
		g, err := newTrial(&draw, e).g99(who, near)
		if err != nil {
			return 0, nil, err
		}
		found, tuned = append(found, g), append(tuned, who.Name)
	}
	return geomean(found), tuned, nil
}

// geomean returns the geometric mean, 0 if one of the values is.
func geomean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// bracket finds where ok turns from true to false: first by strides of a factor, then by bisection.
func bracket(ok func(float64) (bool, error), from, stride, precision float64) (float64, error) {
	first, err := ok(from)
	if err != nil {
		return 0, err
	}
	low, high := from, from // ok, and not ok
	for now := first; now == first; {
		at := low * stride
		if !first {
			at = high / stride
		}
		if at < lowest {
			return 0, nil
		}
		if at > highest {
			return highest, nil
		}
		if now, err = ok(at); err != nil {
			return 0, err
		}
		if now {
			low = at
		} else {
			high = at
		}
	}
	for high/low > 1+precision {
		mid := (low + high) / 2
		now, err := ok(mid)
		if err != nil {
			return 0, err
		}
		if now {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}
