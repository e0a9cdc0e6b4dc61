package sim

import (
	"slices"
	"time"
)

// tfServing models the SharedBatchScheduler of TensorFlow Serving with one batch thread per device: round robin over
// the queues, one batch a turn. A queue is a row of batches. The last one is open. A batch is given when it is
// closed, which the arrival of a task that does not fit does to it, or full, or when its first task has waited for the
// batch timeout. A task that needs a batch too many is refused. There are no deadlines, costs or weights.
//
// With expiry, callers state their objective as the timeout of the call. A batch whose tasks are all late is then
// skipped when its turn comes; with a single one alive all run, late ones included. Nothing leaves the queue for being
// late.
//
// Simplified: a timeout is noticed at once (the original looks every millisecond), large tasks are not split, every
// shape key has a queue of its own.
//
// Source: tensorflow/core/kernels/batching_util/shared_batch_scheduler.h in github.com/tensorflow/tensorflow, whose
// defaults these are (max_enqueued_batches 10); for expiry tensorflow_serving/batching/batching_session.cc in
// github.com/tensorflow/serving.
type tfServing struct {
	lines
	timeout Time
	expiry  bool

	batches []int // by line: how many it has, the open one included
	open    []int // by line: rows in the open batch
	cursor  int
	wake    Time
}

const tfMaxEnqueuedBatches = 10

func newTFServing(env *Env, timeout time.Duration, expiry bool) *tfServing {
	p := &tfServing{lines: newLines(env), timeout: Time(timeout), expiry: expiry}
	p.batches, p.open = make([]int, len(p.all)), make([]int, len(p.all))
	return p
}

// Arrive implements Policy.
func (p *tfServing) Arrive(now Time, r *Request) {
	i := p.index(r)
	if !p.add(i, r.Rows) {
		p.env.Drop(now, r, Refused)
		return
	}
	p.all[i].push(r)
}

// add counts rows to the open batch of line i, or to a new one where they do not fit. It reports false if there are too
// many batches already.
func (p *tfServing) add(i, rows int) bool {
	if p.batches[i] == 0 || p.open[i]+rows > p.env.Models[p.all[i].model].MaxBatch {
		if p.batches[i] == tfMaxEnqueuedBatches {
			return false
		}
		p.batches[i]++
		p.open[i] = 0
	}
	p.open[i] += rows
	return true
}

// Next implements Policy.
func (p *tfServing) Next(now Time, _ int) *Batch {
	for {
		b := p.turn(now)
		if b == nil || !p.expiry || !allLate(now, b) {
			return b
		}
		for _, r := range b.Requests {
			p.env.Drop(now, r, Dropped)
		}
		p.spare = append(p.spare, b)
	}
}

// turn asks each queue once, from the one whose turn it is, and takes the first batch there is.
func (p *tfServing) turn(now Time) *Batch {
	p.wake = Never
	for range p.all {
		i := p.cursor
		p.cursor = (i + 1) % len(p.all)
		q := &p.all[i]
		if q.n == 0 {
			continue
		}
		size := p.env.Models[q.model].MaxBatch
		if ready := q.head().Arrival + p.timeout; p.batches[i] == 1 && p.open[i] < size && now < ready {
			p.wake = min(p.wake, ready)
			continue
		}
		if p.batches[i]--; p.batches[i] == 0 {
			p.open[i] = 0
		}
		return p.take(now, q, 0, size)
	}
	return nil
}

func allLate(now Time, b *Batch) bool {
	return !slices.ContainsFunc(b.Requests, func(r *Request) bool { return r.Deadline > now })
}

// Wake implements Policy.
func (p *tfServing) Wake() Time { return p.wake }
