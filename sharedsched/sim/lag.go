package sim

import "time"

// lag measures how far the weighted device time of flows drifts apart: the largest difference of what two flows received over
// any interval throughout which both were backlogged, that is had a request waiting. What a batch takes counts when it starts.
// A policy is free to let a flow wait that is in no danger of missing a deadline; this measure does not excuse it.
type lag struct {
	flows []lagFlow
	pairs []lagPair // i*n+j with i < j
	worst time.Duration
}

type lagFlow struct {
	weight  float64
	waiting int
	epoch   uint32  // counts the times it became backlogged
	served  float64 // weighted device time, ns
}

// lagPair follows served(i) - served(j) while both stay backlogged.
type lagPair struct {
	epochI, epochJ uint32
	low, high      float64
}

func newLag(models []Model) lag {
	l := lag{flows: make([]lagFlow, len(models)), pairs: make([]lagPair, len(models)*len(models))}
	for i := range models {
		w := models[i].Weight
		if w == 0 {
			w = 1
		}
		l.flows[i] = lagFlow{weight: w}
	}
	return l
}

func (l *lag) arrive(flow int) {
	f := &l.flows[flow]
	if f.waiting == 0 {
		f.epoch++
	}
	f.waiting++
}

func (l *lag) leave(flow, n int) { l.flows[flow].waiting -= n }

// serve counts a batch of n waiting requests. Its flow need not be backlogged after it to have got it.
func (l *lag) serve(flow int, work time.Duration, n int) {
	f := &l.flows[flow]
	before := f.served
	f.served += float64(work) / f.weight
	for j := range l.flows {
		if o := &l.flows[j]; j != flow && o.waiting > 0 {
			if flow < j {
				l.follow(&l.pairs[flow*len(l.flows)+j], f.epoch, o.epoch, before-o.served, f.served-o.served)
			} else {
				l.follow(&l.pairs[j*len(l.flows)+flow], o.epoch, f.epoch, o.served-before, o.served-f.served)
			}
		}
	}
	f.waiting -= n
}

func (l *lag) follow(p *lagPair, i, j uint32, before, after float64) {
	if p.epochI != i || p.epochJ != j {
		*p = lagPair{i, j, before, before}
	}
	p.low, p.high = min(p.low, after), max(p.high, after)
	l.worst = max(l.worst, time.Duration(p.high-p.low))
}
