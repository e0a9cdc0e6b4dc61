package sim

// trial plays a single draw of a workload to see how policies carry a load. It keeps the requests of the latest load,
// since policies are compared at the same ones.
type trial struct {
	w       *Workload
	effort  Effort
	load    float64
	runs    [][]Request // by seed
	offered int         // requests of all runs
	scratch []Request   // of a run, which writes fates into them
}

func newTrial(w *Workload, e Effort) *trial {
	return &trial{w: w, effort: e, runs: make([][]Request, e.Seeds)}
}

// g99 returns G99, searched for from a load on.
func (t *trial) g99(p *Maker, from float64) float64 {
	return bracket(func(load float64) bool { return t.carries(p, load) }, from, t.effort.Precision)
}

// g99Above returns the load that a policy carries if it is above another by more than the precision of the search, else
// 0, which is found at a single load.
func (t *trial) g99Above(p *Maker, above float64) float64 {
	from := 1.0
	if above > 0 {
		if from = above * (1 + t.effort.Precision); !t.carries(p, from) {
			return 0
		}
	}
	return t.g99(p, from)
}

// onTime returns the share on time over all seeds.
func (t *trial) onTime(p *Maker, load float64) float64 {
	t.prepare(load)
	var sum Tally
	for i := range t.runs {
		total := t.play(p, i, nil).Total()
		sum.add(&total)
	}
	return sum.Share()
}

// carries reports whether a policy has enough requests on time over all seeds. Runs end as soon as it has not, where it
// is known how many there are.
func (t *trial) carries(p *Maker, load float64) bool {
	if t.w.waits() {
		return t.onTime(p, load) >= attained
	}
	t.prepare(load)
	lost := int(float64(t.offered) * (1 - attained)) // that many may be lost
	for i := range t.runs {
		sum := t.play(p, i, &lost).Total()
		if lost -= sum.missed(); lost < 0 {
			return false
		}
	}
	return true
}

// play runs the prepared load of one seed, until more than lost requests are, if that is given.
func (t *trial) play(p *Maker, i int, lost *int) *Result {
	t.scratch = append(t.scratch[:0], t.runs[i]...)
	return t.w.run(p, t.scratch, t.effort.Span, t.effort.seed(i), lost)
}

// prepare makes the requests of a load.
func (t *trial) prepare(load float64) {
	if t.load == load {
		return
	}
	t.load, t.offered = load, 0
	for i := range t.runs {
		t.runs[i] = t.w.Requests(load, t.effort.Span, t.effort.seed(i))
		for k := range t.runs[i] {
			if !t.runs[i][k].background() {
				t.offered++
			}
		}
	}
}
