package sim

import (
	"cmp"
	"slices"
	"time"
)

// sfq is start-time fair queueing in device time over the models that have requests waiting, weighted: the least start
// tag is served next, a model is charged the expected time of its batch divided by its weight, corrected when it ended,
// and one that comes back starts at the tag last served, so that resting earns no credit. Within a model the shape key
// that has to start soonest is served. Batches are formed as by EDF with drop, so that only the order between models is
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
	if !slices.ContainsFunc(p.of(r.Model), func(q line) bool { return q.n > 0 }) {
		p.tag[r.Model] = max(p.tag[r.Model], p.served)
	}
	p.lines.Arrive(now, r)
}

// Next implements Policy.
func (p *sfq) Next(now Time, _ int) *Batch {
	b := p.pick(now, func(q *line) window { return p.saturatedWindow(now, q) }, func(a, b window) bool {
		this, that := p.tag[a.line.model], p.tag[b.line.model]
		return this < that || this == that && startFirst(a, b)
	})
	if b == nil {
		return nil
	}
	p.served = max(p.served, p.tag[b.Model])
	p.charge(b.Model, p.env.Profile(b.Model, b.Rows))
	return b
}

// Done implements Policy.
func (p *sfq) Done(now Time, b *Batch, took time.Duration) {
	p.charge(b.Model, took-p.env.Profile(b.Model, b.Rows))
	p.lines.Done(now, b, took)
}

func (p *sfq) charge(model int, d time.Duration) {
	p.tag[model] += float64(d) / cmp.Or(p.env.Models[model].Weight, 1)
}
