package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const tick = Time(time.Millisecond)

// script is a policy given by functions.
type script struct {
	env    *Env
	queue  []*Request
	arrive func(p *script, now Time, r *Request)
	next   func(p *script, now Time, lane int) *Batch
	done   func(took time.Duration)
	wake   func(p *script) Time
}

func (p *script) Arrive(now Time, r *Request) {
	if p.arrive != nil {
		p.arrive(p, now, r)
		return
	}
	p.queue = append(p.queue, r)
}

func (p *script) Next(now Time, lane int) *Batch { return p.next(p, now, lane) }

func (p *script) Done(_ Time, _ *Batch, took time.Duration) {
	if p.done != nil {
		p.done(took)
	}
}

func (p *script) Wake() Time {
	if p.wake != nil {
		return p.wake(p)
	}
	return Never
}

// inOrder runs up to that many requests at a time in order of arrival.
func inOrder(most int) func(p *script, now Time, lane int) *Batch {
	return func(p *script, _ Time, _ int) *Batch {
		n := min(most, len(p.queue))
		if n == 0 {
			return nil
		}
		b := &Batch{Model: p.queue[0].Model, Requests: p.queue[:n:n], Rows: n, Size: n}
		p.queue = p.queue[n:]
		return b
	}
}

// requestsAt returns requests of model 0 that want their answers within 25 ms.
func requestsAt(times ...Time) []Request {
	var all []Request
	for _, at := range times {
		all = append(all, Request{Rows: 1, Arrival: at * tick, Deadline: (at + 25) * tick})
	}
	return all
}

// ends returns when requests ended, in milliseconds, negative if not on time.
func ends(requests []Request) []float64 {
	var all []float64
	for i := range requests {
		at := float64(requests[i].Finish) / float64(tick)
		if requests[i].Fate != OnTime {
			at = -at
		}
		all = append(all, at)
	}
	return all
}

// ten is a model whose batch of n takes 8+2n ms.
var ten = []Model{{Name: "ten", Base: 8 * time.Millisecond, PerRow: 2 * time.Millisecond, MaxBatch: 4}}

// TestHandComputed compares runs with schedules worked out by hand.
func TestHandComputed(t *testing.T) {
	tests := []struct {
		name     string
		setup    Setup
		policy   script
		arrivals []Time
		ends     []float64
		busy     time.Duration
		idle     time.Duration
		copying  time.Duration // of the busy time, with nothing computing
	}{
		{
			name: "one at a time, the fourth is late", setup: Setup{}, policy: script{next: inOrder(1)},
			arrivals: []Time{0, 1, 2, 3, 50}, ends: []float64{10, 20, -30, -40, 60}, busy: 50 * time.Millisecond,
		},
		{
			name: "what waits joins", setup: Setup{}, policy: script{next: inOrder(4)},
			arrivals: []Time{0, 1, 2}, ends: []float64{10, 22, 22}, busy: 22 * time.Millisecond,
		},
		{
			// Alone for 5 ms, then both at half speed: the first has 5 ms of work left, which takes 10. The second then
			// has 5.
			name: "two share the device", setup: Setup{Lanes: 2}, policy: script{next: inOrder(1)},
			arrivals: []Time{0, 5}, ends: []float64{15, 20}, busy: 20 * time.Millisecond,
		},
		{
			// At 0.75 each, the first needs 5/0.75 = 6.67 ms more, in which the second does 5.
			name: "two overlap", setup: Setup{Lanes: 2, Overlap: 1.5}, policy: script{next: inOrder(1)},
			arrivals: []Time{0, 5}, ends: []float64{11.666667, 16.666667}, busy: 16666667,
		},
		{
			// The first copies for 2 ms and computes alone until 7, when the second has copied, with 3 ms of work left;
			// the second then has 5.
			name: "one copies while the other computes", setup: Setup{Lanes: 2, Copying: 0.2},
			policy:   script{next: inOrder(1)},
			arrivals: []Time{0, 5}, ends: []float64{13, 18}, busy: 18 * time.Millisecond, copying: 2 * time.Millisecond,
		},
		{
			name: "a slow device", setup: Setup{Device: Device{Pace: []Pace{
				{From: 5 * tick, Speed: 0.5},
				{From: 11 * tick},
			}}}, policy: script{next: inOrder(1)},
			arrivals: []Time{0}, ends: []float64{13}, busy: 13 * time.Millisecond,
		},
		{
			name: "a profile that says nothing about the device", setup: Setup{Error: []float64{7}},
			policy:   script{next: inOrder(1)},
			arrivals: []Time{0}, ends: []float64{10}, busy: 10 * time.Millisecond,
		},
		{
			name: "held until 7 ms", setup: Setup{}, policy: script{
				next: func(p *script, now Time, lane int) *Batch {
					if now < 7*tick {
						return nil
					}
					return inOrder(4)(p, now, lane)
				},
				wake: func(p *script) Time {
					if len(p.queue) == 0 {
						return Never
					}
					return 7 * tick
				},
			},
			arrivals: []Time{1, 3}, ends: []float64{19, 19}, busy: 12 * time.Millisecond, idle: 6 * time.Millisecond,
		},
		{
			name: "refused and given up", setup: Setup{}, policy: script{
				arrive: func(p *script, now Time, r *Request) {
					if r.Arrival == 2*tick {
						p.env.Drop(now, r, Refused)
						return
					}
					p.queue = append(p.queue, r)
				},
				next: inOrder(1),
			},
			arrivals: []Time{0, 2, 3}, ends: []float64{10, -2, 20}, busy: 20 * time.Millisecond,
		},
		{
			name: "never served", setup: Setup{}, policy: script{next: func(*script, Time, int) *Batch { return nil }},
			arrivals: []Time{0, 4}, ends: []float64{-4, -4}, idle: 4 * time.Millisecond,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requests := requestsAt(tt.arrivals...)
			tt.setup.Models = ten
			policy := tt.policy
			var took time.Duration
			policy.done = func(d time.Duration) { took += d }
			r, err := Run(&tt.setup, requests, func(e *Env) Policy { policy.env = e; return &policy })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.ends, ends(requests)); diff != "" {
				t.Errorf("ends in ms, negative if not on time (-want +got):\n%s", diff)
			}
			// Shares are rounded to nanoseconds.
			if r.Busy < tt.busy || r.Busy > tt.busy+1 || r.Idle != tt.idle {
				t.Errorf("busy %v, idle %v with work waiting; want %v, %v", r.Busy, r.Idle, tt.busy, tt.idle)
			}
			if copying := r.Busy - r.Computed; copying < tt.copying-1 || copying > tt.copying+1 {
				t.Errorf("nothing computed for %v, want %v", copying, tt.copying)
			}
			if took != r.Busy {
				t.Errorf("policy was told that batches took %v, the device was busy for %v", took, r.Busy)
			}
		})
	}
}

// TestFaultsOfPolicies: a breach of a policy's contract ends the run.
func TestFaultsOfPolicies(t *testing.T) {
	tests := map[string]struct {
		policy script
		want   string
	}{
		"runs the same twice": {script{next: func(p *script, _ Time, _ int) *Batch {
			return &Batch{Requests: p.queue[:1], Rows: 1}
		}}, "is running"},
		"an empty batch": {script{next: func(*script, Time, int) *Batch { return &Batch{} }}, "is empty"},
		"another model": {script{next: func(p *script, _ Time,
			_ int,
		) *Batch {
			return &Batch{Model: 1, Requests: p.queue[:1], Rows: 1}
		}}, "another model"},
		"wrong rows": {script{next: func(p *script, _ Time,
			_ int,
		) *Batch {
			return &Batch{Requests: p.queue[:1], Rows: 2}
		}}, "2 rows, it has 1"},
		"wakes in past": {script{
			next: func(*script, Time, int) *Batch { return nil },
			wake: func(*script) Time { return 0 },
		}, "which has come"},
		"drops its batch": {script{next: func(p *script, now Time, _ int) *Batch {
			p.env.Drop(now, p.queue[0], Dropped)
			return &Batch{Requests: p.queue[:1], Rows: 1}
		}}, "holds a request that has ended"},
		"drops twice": {script{arrive: func(p *script, now Time, r *Request) {
			p.env.Drop(now, r, Refused)
			p.env.Drop(now, r, Dropped)
		}}, "gives up a request"},
		"too large": {script{next: func(p *script, now Time, lane int) *Batch {
			if len(p.queue) < 5 {
				return nil
			}
			return inOrder(5)(p, now, lane)
		}}, "5 rows, the model allows 4"},
		"mixes keys": {script{next: func(p *script, now Time, lane int) *Batch {
			if len(p.queue) < 2 {
				return nil
			}
			p.queue[0].Key = 1
			return inOrder(2)(p, now, lane)
		}}, "mixes shape keys"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := Setup{Models: append(ten, ten...), Lanes: 2}
			_, err := Run(&s, requestsAt(0, 1, 2, 3, 4), func(e *Env) Policy { tt.policy.env = e; return &tt.policy })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}
