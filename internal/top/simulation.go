package top

import (
	"fmt"
	"math/rand/v2"
	"slices"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// simulation is a made-up device and its callers, in virtual time: robots that ask two versions of a policy and a
// walking policy, a ranker with large batches, and a shadow. It keeps what happened in the last minute.
type simulation struct {
	random  *rand.Rand
	now     float64 // milliseconds
	free    float64 // when the device is
	flows   []*simFlow
	batches []*simBatch
	ended   []*simRequest
	numbers uint32
}

// simFlow is a version. Times are milliseconds.
type simFlow struct {
	model      string
	version    int32
	slot       string
	weight     float64
	target     float64
	rate       float64 // requests a second
	base, each float64 // what a batch takes, and each row more
	most, room int     // rows of a batch, requests that may wait
	background bool
	burst      float64 // requests that come together, on average
	next       float64
	asked      int
	queue      []*simRequest
	used       float64 // device time over weight

	batches, full, rows, padded, busy, answered, late, refused float64
}

type simRequest struct {
	number                uint32
	id                    string
	flow                  int
	arrival, started, end float64
	target                float64
	batch                 uint32
	how                   weftv1.RequestEnd
	reason                string
}

type simBatch struct {
	number     uint32
	flow       int
	start, end float64
	rows, size int
	flags      uint32
}

func newSimulation(seed uint64) *simulation {
	return &simulation{random: rand.New(rand.NewPCG(seed, seed)), flows: []*simFlow{
		{
			model: "pick", version: 5, slot: "prod", weight: 1, target: 60, rate: 250, base: 4, each: 0.55, most: 16, room: 64,
			burst: 3,
		},
		{
			model: "pick", version: 6, slot: "canary", weight: 1, target: 60, rate: 60, base: 4, each: 0.55, most: 16, room: 64,
			burst: 3,
		},
		{
			model: "pick", version: 7, slot: "shadow", weight: 1, target: 60, rate: 25, base: 4, each: 0.55, most: 16, room: 64,
			burst: 2, background: true,
		},
		{
			model: "rank", version: 3, slot: "prod", weight: 1, target: 300, rate: 50, base: 6, each: 1.3, most: 32, room: 29,
			burst: 16,
		},
		{
			model: "walk", version: 8, slot: "prod", weight: 2, target: 20, rate: 220, base: 0.8, each: 0.12, most: 16, room: 64,
			burst: 2,
		},
	}}
}

// advance plays so many milliseconds more.
func (s *simulation) advance(ms float64) {
	for until := s.now + ms; ; {
		arrives := slices.MinFunc(s.flows, func(a, b *simFlow) int {
			if a.next < b.next {
				return -1
			}
			return 1
		})
		flow := s.pick()
		switch starts := max(s.free, s.now); {
		case flow >= 0 && starts <= min(arrives.next, until):
			s.now = starts
			s.start(flow)
		case arrives.next > until:
			s.now = until
			s.forget()
			return
		default:
			s.now = arrives.next
			s.arrive(arrives)
		}
	}
}

// arrive has a burst of requests come.
func (s *simulation) arrive(f *simFlow) {
	of := slices.Index(s.flows, f)
	burst := 1 + s.random.IntN(int(2*f.burst)-1)
	for range burst {
		s.numbers++
		f.asked++
		q := &simRequest{
			number: s.numbers, id: fmt.Sprintf("robot-%d/step-%d", s.random.IntN(40)+1, f.asked), flow: of, arrival: s.now,
			target: f.target,
		}
		if len(f.queue) < f.room {
			f.queue = append(f.queue, q)
			continue
		}
		q.end, q.how, q.reason = s.now, weftv1.RequestEnd_REQUEST_END_REFUSED, "QUEUE_FULL"
		f.refused++
		s.ended = append(s.ended, q)
	}
	f.next = s.now + s.random.ExpFloat64()*f.burst*1000/f.rate
}

// pick returns the flow whose turn it is, or -1: the one that had least of its share; the shadow's where none waits.
func (s *simulation) pick() int {
	best := -1
	for i, f := range s.flows {
		if len(f.queue) == 0 {
			continue
		}
		if best < 0 || s.flows[best].background && !f.background ||
			s.flows[best].background == f.background && f.used < s.flows[best].used {
			best = i
		}
	}
	return best
}

// start runs a batch of a flow. Its requests end with it.
func (s *simulation) start(flow int) {
	f := s.flows[flow]
	n := min(len(f.queue), f.most)
	size := 1
	for size < n {
		size *= 2
	}
	s.numbers++
	b := &simBatch{number: s.numbers, flow: flow, start: s.now, rows: n, size: size}
	b.end = s.now + (f.base+f.each*float64(size))*(0.9+0.2*s.random.Float64())
	if f.background {
		b.flags |= flagBackground
	}
	for _, q := range f.queue[:n] {
		q.started, q.end, q.batch, q.how = s.now, b.end, b.number, weftv1.RequestEnd_REQUEST_END_ANSWERED
		if f.answered++; q.end-q.arrival > q.target && !f.background { // nobody waits for a shadow
			q.how = weftv1.RequestEnd_REQUEST_END_LATE
			f.late++
			b.flags |= flagMissed
		}
		s.ended = append(s.ended, q)
	}
	f.queue = slices.Clone(f.queue[n:])
	took := b.end - b.start
	if f.batches++; n == f.most {
		f.full++
	}
	f.rows += float64(n)
	f.padded += float64(size - n)
	f.busy += took
	least := f.used // who had nothing to do does not save up
	for _, o := range s.flows {
		if o != f && len(o.queue) > 0 {
			least = min(least, o.used)
		}
	}
	f.used = max(f.used, least) + took/f.weight
	for _, o := range s.flows {
		o.used = max(o.used, f.used-60)
	}
	s.batches = append(s.batches, b)
	s.free = b.end
}

// forget drops what ended more than a minute ago.
func (s *simulation) forget() {
	since := s.now - minute - demoWindow
	s.batches = slices.DeleteFunc(s.batches, func(b *simBatch) bool { return b.end < since })
	s.ended = slices.DeleteFunc(s.ended, func(q *simRequest) bool { return q.end < since })
}
