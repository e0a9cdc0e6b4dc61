package sim

import "time"

// nexus models the serving side of Nexus on one device. A plan gives each session a batch size, the largest b with 2
// l(b) <= SLO or, where the session alone does not saturate the device, with l(b) + b/rate <= SLO, and so a duty cycle,
// the time in which such a batch gathers. The device goes round the sessions that are due, executing at most one
// planned batch of each. Early drop slides a window of the planned size over a queue, giving up the heads that would
// force a smaller batch.
//
// Simplified: there is no other device to which sessions could be moved when the plan does not fit, so all stay, and
// the plan follows the rate of the last ten seconds, their averaging interval, at once instead of by epochs. Favoured:
// the device does not idle when no session is due. As an option the plan supposes that every session saturates the
// device and is always due, as theirs does when it is given no rate: bursts fare better with it.
//
// Source: Shen et al., "Nexus: A GPU Cluster Engine for Accelerating DNN-Based Video Analysis", SOSP 2019; its rules as
// implemented by tools/nexus_scheduler in github.com/abcdabcd987/nexuslb.
type nexus struct {
	lines
	rates     rates
	saturated bool
	cursor    int
}

func newNexus(env *Env, saturated bool) *nexus {
	p := &nexus{lines: newLines(env), saturated: saturated}
	p.rates = newRates(&p.lines, 10*time.Second)
	return p
}

// Arrive implements Policy.
func (p *nexus) Arrive(now Time, r *Request) {
	p.rates.arrive(now, p.index(r), r.Rows)
	p.lines.Arrive(now, r)
}

// Next implements Policy.
func (p *nexus) Next(now Time, _ int) *Batch {
	next, size := -1, 0
	for range p.all {
		i := p.cursor
		p.cursor = (i + 1) % len(p.all)
		q := &p.all[i]
		p.expire(now, q)
		if q.n == 0 {
			continue
		}
		planned, due := p.plan(now, i)
		if next < 0 || due {
			next, size = i, planned
		}
		if due {
			break
		}
	}
	if next < 0 {
		return nil
	}
	p.cursor = (next + 1) % len(p.all)
	q := &p.all[next]
	skip, rows := p.suffix(now, q, size)
	return p.take(now, q, skip, rows)
}

// plan returns the batch size of a line that is not empty, and whether it is due.
func (p *nexus) plan(now Time, line int) (size int, due bool) {
	q, rate := &p.all[line], saturating
	if !p.saturated {
		rate = p.rates.of(now, line)
	}
	size = p.target(q.model, rate)
	return size, q.rows >= size || float64(now-q.head().Arrival) >= float64(size)/rate*1e9
}
