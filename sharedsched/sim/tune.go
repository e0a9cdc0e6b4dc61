package sim

// trainingSeed is far from the seeds that figures are found with, which are 1, 2 and so on.
const trainingSeed = 1 << 20

// training returns the effort to choose a member of a family for figures of effort e: a short run on a seed of its own.
// The precision is that of a full study, since a member is chosen only if the search can tell that it is better.
func (e Effort) training() Effort {
	return Effort{Span: min(e.Span, Quick.Span), Seeds: 1, Precision: Full.Precision, First: trainingSeed}
}

// tune returns the member of a family that carries the highest load of a single draw in training, the first of equals,
// and a load from which to search for its G99.
func tune(w *Workload, f *Family, e Effort) (*Maker, float64, error) {
	best, who := 0.0, &f.Members[0]
	if len(f.Members) == 1 {
		return who, 1, nil
	}
	t := newTrial(w, e.training())
	for i := range f.Members {
		m := &f.Members[i]
		g, err := t.g99Above(m, best)
		if err != nil {
			return nil, 0, err
		}
		if g > best {
			best, who = g, m
		}
	}
	if best == 0 {
		return who, 1, nil
	}
	return who, best, nil
}

// tuneScene returns the member of a family that has the largest share of all requests on time in training, the first of
// equals.
func tuneScene(s *Scene, f *Family, e Effort) (*Maker, error) {
	most, who := -1.0, &f.Members[0]
	if len(f.Members) == 1 {
		return who, nil
	}
	t := newTrial(&s.Workload, e.training())
	for i := range f.Members {
		share, err := t.onTime(&f.Members[i], s.Load)
		if err != nil {
			return nil, err
		}
		if share > most {
			most, who = share, &f.Members[i]
		}
	}
	return who, nil
}
