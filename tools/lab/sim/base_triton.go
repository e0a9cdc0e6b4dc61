package sim

import "time"

// triton models the dynamic batchers of Triton Inference Server with one instance per model: each model has a batcher
// of its own that knows of no other, so lane i is model i's, and all their batches share the device. A batch starts
// when it is full or its oldest request has waited for the queue delay. As shipped there is no queue timeout, so that
// late requests still run. With reject, requests that are past their deadline when a batch is formed are
// rejected, as with a default queue timeout equal to the objective and the action REJECT, which has to be asked for.
//
// Without a queue policy the original hands over up to two batches ahead of execution. That is left out, since it
// changes nothing here: a batch handed over still takes in arrivals until it is full or starts, so that those frozen
// early are full, and the order is that of arrival.
//
// Simplified: no preferred sizes (their documentation advises against them), no bound on queued requests. Favoured: a
// timeout is noticed at once, and requests of different shapes wait in lines of their own, whereas the original ends a
// batch at the first request of another shape.
//
// Source: src/dynamic_batch_scheduler.cc, src/rate_limiter.cc and src/scheduler_utils.cc in
// github.com/triton-inference-server/core.
type triton struct {
	lines
	delay  Time
	reject bool
	busy   []bool // by model
	wake   []Time // by model
}

func newTriton(env *Env, delay time.Duration, reject bool) *triton {
	p := &triton{lines: newLines(env), delay: Time(delay), reject: reject}
	p.busy, p.wake = make([]bool, len(env.Models)), make([]Time, len(env.Models))
	for m := range p.wake {
		p.wake[m] = Never
	}
	return p
}

// Arrive implements Policy.
func (p *triton) Arrive(_ Time, r *Request) { p.all[p.index(r)].push(r) }

// Next implements Policy.
func (p *triton) Next(now Time, lane int) *Batch {
	if lane >= len(p.wake) {
		return nil
	}
	p.wake[lane] = Never
	size := p.env.Models[lane].MaxBatch
	var oldest *line
	keys := p.of(lane)
	for i := range keys {
		q := &keys[i]
		for p.reject && q.n > 0 && q.head().Deadline <= now {
			p.env.Drop(now, q.pop(), Dropped)
		}
		if q.n == 0 {
			continue
		}
		if ready := q.head().Arrival + p.delay; q.rows < size && now < ready {
			p.wake[lane] = min(p.wake[lane], ready)
		} else if oldest == nil || q.head().Arrival < oldest.head().Arrival {
			oldest = q
		}
	}
	if oldest == nil {
		return nil
	}
	p.busy[lane] = true
	return p.take(now, oldest, 0, size)
}

// Done implements Policy.
func (p *triton) Done(now Time, b *Batch, took time.Duration) {
	p.busy[b.Model] = false
	p.lines.Done(now, b, took)
}

// Wake implements Policy.
func (p *triton) Wake() Time {
	soonest := Never
	for m, at := range p.wake {
		if !p.busy[m] {
			soonest = min(soonest, at)
		}
	}
	return soonest
}
