package sim

import "time"

// Effort says how much is simulated to find a figure.
type Effort struct {
	Span      time.Duration // virtual time of arrivals in each run
	Seeds     int
	Precision float64 // relative, of the load found by a search
}

// The usual efforts.
var (
	Full  = Effort{Span: 20 * time.Second, Seeds: 4, Precision: 0.01}
	Quick = Effort{Span: 5 * time.Second, Seeds: 1, Precision: 0.04}
)

const (
	// attained is the share of requests that must be on time for a load to count as carried.
	attained = 0.99
	// lowest and highest bound the search for a load.
	lowest, highest = 1.0 / 64, 64.0
	// stride is by how much the search for a load goes at first.
	stride = 1.25
)

// G99 returns the highest load, in units of the workload's fluid capacity, at which a policy answers 99 % of the requests on
// time, over all seeds together; 0 if there is none of at least 1/64. Where the share on time is not monotone in the load, it is
// one of the loads at which it crosses 99 %.
func G99(w *Workload, p *Maker, e Effort) (float64, error) { return g99Above(w, p, e, 0) }

// g99Above is G99 if that is above a load by more than the search can tell, else 0, which is found with a single run.
func g99Above(w *Workload, p *Maker, e Effort, above float64) (float64, error) {
	carries := func(load float64) (bool, error) {
		share, err := onTime(w, p, load, e)
		return share >= attained, err
	}
	from := 1.0
	if above > 0 {
		from = above * (1 + e.Precision)
		if ok, err := carries(from); !ok || err != nil {
			return 0, err
		}
	}
	return bracket(carries, from, stride, e.Precision)
}

// FamilyG99 returns the largest G99 among the members of a family, and which member that is.
func FamilyG99(w *Workload, f *Family, e Effort) (float64, *Maker, error) {
	best, who := 0.0, &f.Members[0]
	for i := range f.Members {
		m := &f.Members[i]
		g, err := g99Above(w, m, e, best)
		if err != nil {
			return 0, nil, err
		}
		if g > best {
			best, who = g, m
		}
	}
	return best, who, nil
}

// onTime returns the share on time over the seeds of the effort.
func onTime(w *Workload, p *Maker, load float64, e Effort) (float64, error) {
	var sum Tally
	for seed := range e.Seeds {
		r, err := w.Play(p, load, e.Span, uint64(seed)+1, false)
		if err != nil {
			return 0, err
		}
		t := r.Total()
		sum.add(&t)
	}
	return sum.Share(), nil
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
