package sim

import (
	"slices"
	"time"
)

// clockwork models the inference scheduler of Clockwork. Each model has a FIFO for every batch size, powers of two,
// into which each request goes; a FIFO drops the heads that a batch of its size would answer late. The FIFOs'
// strategies compete by the time they have to start: deadline of the head less the size's estimate. The winner's model
// executes the largest size for which there are enough requests, and its other FIFOs skip all up to the last request
// taken. An estimate is the 99th percentile, so the largest, of the last 10 measurements; with typical it is their
// median. A buffer is taken off every objective, at most a tenth of it: theirs was 5 ms, of objectives of 100 ms.
//
// Simplified: decisions are made when the device is free instead of 10 ms ahead, no action is rejected by a late
// worker, all models are loaded. Requests of several rows use the smallest size that holds them when nothing can be
// added to fill one, and a MaxBatch that is no power of two is a size too.
//
// Source: Gujarati et al., "Serving DNNs like Clockwork: Performance Predictability from the Bottom Up", OSDI 2020;
// src/clockwork/controller/infer5 in github.com/malixian/clockwork, a mirror of their code.
type clockwork struct {
	lines
	typical bool
	sorted  []time.Duration // room for a median
	models  []clockworkModel
	fifos   [][]int // by line, by size: how many of the line's requests its FIFO skips
}

type clockworkModel struct {
	sizes    []int
	measured [][]time.Duration // by size: the last measurements
	estimate []Time            // by size
	buffer   Time
}

const clockworkMeasurements = 10

func newClockwork(env *Env, buffer time.Duration, typical bool) *clockwork {
	p := &clockwork{lines: newLines(env), typical: typical}
	for m := range env.Models {
		model := clockworkModel{buffer: Time(min(buffer, env.Models[m].SLO/10))}
		largest := env.Models[m].MaxBatch
		for b := 1; b < largest; b *= 2 {
			model.sizes = append(model.sizes, b)
		}
		model.sizes = append(model.sizes, largest)
		for _, b := range model.sizes {
			model.estimate = append(model.estimate, Time(env.Profile(m, b)))
		}
		model.measured = make([][]time.Duration, len(model.sizes))
		p.models = append(p.models, model)
	}
	for i := range p.all {
		p.fifos = append(p.fifos, make([]int, len(p.models[p.all[i].model].sizes)))
	}
	return p
}

// Arrive implements Policy.
func (p *clockwork) Arrive(_ Time, r *Request) { p.all[p.index(r)].push(r) }

// Next implements Policy.
func (p *clockwork) Next(now Time, _ int) *Batch {
	best, size, soonest := -1, 0, Never
	for i := range p.all {
		p.drain(now, i)
		for s := range p.fifos[i] {
			if p.demand(i, s) {
				if start := p.deadline(i, p.fifos[i][s]) - p.models[p.all[i].model].estimate[s]; start < soonest {
					best, size, soonest = i, s, start
				}
			}
		}
	}
	if best < 0 {
		return nil
	}
	for s := size + 1; s < len(p.fifos[best]); s++ {
		if p.demand(best, s) {
			size = s
		}
	}
	return p.start(now, best, size)
}

func (p *clockwork) deadline(line, i int) Time {
	q := &p.all[line]
	return q.at(i).Deadline - p.models[q.model].buffer
}

// drain drops from each FIFO of a line the requests that it cannot answer in time, and gives up requests that no FIFO
// holds any more.
func (p *clockwork) drain(now Time, line int) {
	q, fifos := &p.all[line], p.fifos[line]
	keep := q.n
	for s := range fifos {
		end := now + p.models[q.model].estimate[s]
		for fifos[s] < q.n && p.deadline(line, fifos[s]) < end {
			fifos[s]++
		}
		keep = min(keep, fifos[s])
	}
	p.advance(line, keep)
	for range keep {
		p.env.Drop(now, q.pop(), Dropped)
	}
}

// advance prepares for the removal of that many requests from the front of a line.
func (p *clockwork) advance(line, by int) {
	for s, skip := range p.fifos[line] {
		p.fifos[line][s] = max(skip-by, 0)
	}
}

// demand reports whether size s of a line has enough requests.
func (p *clockwork) demand(line, s int) bool {
	q, skip := &p.all[line], p.fifos[line][s]
	if skip == q.n {
		return false
	}
	sizes, head := p.models[q.model].sizes, q.at(skip).Rows
	switch largest := sizes[len(sizes)-1]; {
	case head > sizes[s]:
		return s == len(sizes)-1 && head > largest // a request that is larger than every size
	case s > 0 && head > sizes[s-1]:
		return true // the smallest size that holds the head
	}
	rows := q.n - skip // at least; counted below only where that does not suffice
	for i := skip; i < q.n && rows < sizes[s]; i++ {
		rows += q.at(i).Rows - 1
	}
	return rows >= sizes[s]
}

// start executes size s of a line.
func (p *clockwork) start(now Time, line, s int) *Batch {
	q, skip := &p.all[line], p.fifos[line][s]
	sizes := p.models[q.model].sizes
	count, _ := q.fill(skip, sizes[s])
	p.advance(line, skip+count)
	b := p.take(now, q, skip, sizes[s])
	if i, _ := slices.BinarySearch(sizes, b.Rows); i < len(sizes) {
		b.Size = sizes[i] // less than sizes[s] where the next request has too many rows to fill it
	}
	return b
}

// Done implements Policy.
func (p *clockwork) Done(now Time, b *Batch, took time.Duration) {
	m := &p.models[b.Model]
	if s, ok := slices.BinarySearch(m.sizes, b.Size); ok {
		m.measured[s] = append(m.measured[s], took)
		if n := len(m.measured[s]); n > clockworkMeasurements {
			m.measured[s] = append(m.measured[s][:0], m.measured[s][1:]...)
		}
		if m.estimate[s] = Time(slices.Max(m.measured[s])); p.typical {
			p.sorted = append(p.sorted[:0], m.measured[s]...)
			slices.Sort(p.sorted)
			m.estimate[s] = Time(p.sorted[len(p.sorted)/2])
		}
	}
	p.lines.Done(now, b, took)
}
