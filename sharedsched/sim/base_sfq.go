package sim

import "time"

// sfq is start-time fair queueing in device time over the models that have requests waiting, weighted: the least start
// tag is served next, a model is charged the expected time of its batch divided by its weight, corrected when it ended,
// and one that comes back starts at the tag last served, so that resting earns no credit. Within a model the shape key
// that has to start soonest is served. Batches are formed as by edf with drop, so that only the order between models is
// compared.
//
// Source: Goyal, Vin and Cheng, "Start-time Fair Queueing", SIGCOMM 1996.
type sfq struct {
	lines
	tag    []float64 // by model: nanoseconds of device time by weight
	served float64   // the virtual time
}

func newSFQ(env *Env) *sfq { return &sfq{lines: newLines(env), tag: make([]float64, len(env.Models))} }

// Arrive implements Policy.
func (p *sfq) Arrive(now Time, r *Request) {
	if p.idle(r.Model) {
		p.tag[r.Model] = max(p.tag[r.Model], p.served)
	}
	p.lines.Arrive(now, r)
}

func (p *sfq) idle(model int) bool {
	keys := p.of(model)
	for i := range keys {
		if keys[i].n > 0 {
			return false
		}
	}
	return true
}

// Next implements Policy.
func (p *sfq) Next(now Time, _ int) *Batch {
	var best *line
	var chosen window
	for i := range p.all {
		q := &p.all[i]
		p.expire(now, q)
		if q.n == 0 || best != nil && p.tag[q.model] > p.tag[best.model] {
			continue
		}
		w := p.saturatedWindow(now, q)
		if best == nil || p.tag[q.model] < p.tag[best.model] || w.last < chosen.last {
			best, chosen = q, w
		}
	}
	if best == nil {
		return nil
	}
	p.served = max(p.served, p.tag[best.model])
	b := p.take(now, best, chosen.skip, chosen.rows)
	p.charge(b.Model, p.env.Profile(b.Model, b.Rows))
	return b
}

// Done implements Policy.
func (p *sfq) Done(now Time, b *Batch, took time.Duration) {
	p.charge(b.Model, took-p.env.Profile(b.Model, b.Rows))
	p.lines.Done(now, b, took)
}

func (p *sfq) charge(model int, d time.Duration) {
	weight := p.env.Models[model].Weight
	if weight == 0 {
		weight = 1
	}
	p.tag[model] += float64(d) / weight
}
