package sim

import "time"

// symphony models Symphony's batch rule on one device. Each model keeps the best batch it could start: it aims at the
// size that its rate calls for, drops heads that stand in the way of it, and takes further requests that cost nothing
// (lines.sliding, lines.target). A free device takes the candidate that becomes invalid first. It is eager: a batch is
// a candidate at once, so that the device never idles while requests wait. Deferred, as in the paper, a batch is one
// only when one more request could no longer be added without missing the first deadline, which pays on many devices,
// and carries next to nothing on one.
//
// Simplified: the network latencies and the 2 ms that their code sets aside are zero here; a batch as large as the
// model allows is a candidate at once; the rate is that of the last half second. On one device their rule l(b)(1+1/n)
// <= SLO, where n is the number of devices that the model needs, counts n as at most 1.
//
// Source: Chen et al., "Symphony: Optimized DNN Model Serving using Deferred Batch Scheduling", arXiv 2308.07470;
// src/nexus/dispatcher/rankmt and batch_policy.cpp in github.com/abcdabcd987/nexuslb.
type symphony struct {
	lines
	rates rates
}

func newSymphony(env *Env) *symphony {
	p := &symphony{lines: newLines(env)}
	p.rates = newRates(&p.lines, time.Second/2)
	return p
}

// Arrive implements Policy.
func (p *symphony) Arrive(now Time, r *Request) {
	p.rates.arrive(now, p.index(r), r.Rows)
	p.lines.Arrive(now, r)
}

// Next implements Policy.
func (p *symphony) Next(now Time, _ int) *Batch {
	return p.pick(now, func(q *line) window {
		return p.sliding(now, q, p.target(q.model, p.rates.of(now, q.index)))
	}, startFirst)
}
