package sim

// trainingSeed is far from the seeds that figures are found with, which are 1, 2 and so on.
const trainingSeed = 1 << 20

// training returns the effort to choose a member of a family for figures of effort e: a short run on a seed of its own.
// The precision is that of a full study, since a member is chosen only if the search can tell that it is better.
func (e Effort) training() Effort {
	return Effort{Span: min(e.Span, Quick.Span), Seeds: 1, Precision: Full.Precision, First: trainingSeed}
}

// tune returns the member of a family with the highest figure in training, the first of equals, and the figure. figure
// is given the highest one so far, and may return 0 for a lower one. Where there is nothing to choose the figure is 0.
func tune(w *Workload, f *Family, training Effort, figure func(*trial, *Maker, float64) float64) (*Maker, float64) {
	best, who := 0.0, &f.Members[0]
	if len(f.Members) == 1 {
		return who, 0
	}
	t := newTrial(w, training)
	for i := range f.Members {
		if found := figure(t, &f.Members[i], best); found > best {
			best, who = found, &f.Members[i]
		}
	}
	return who, best
}
