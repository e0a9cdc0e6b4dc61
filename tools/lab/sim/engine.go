package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Setup is everything about a run but its requests and its policy.
type Setup struct {
	Models  []Model
	Error   []float64 // see Env
	Device  Device
	Lanes   int     // batches that may be in flight; 0 counts as 1
	Overlap float64 // work done per unit of time when at least two compute; 0 counts as 1
	// Copying is the part of each execution, at its beginning, in which it does not compute: it takes no time from
	// others then.
	Copying float64
	// Telemetry reports the state of the device to the policy, which must be an observer.
	Telemetry Telemetry
	Seed      uint64 // of the device's noise, and of how long callers think
	// Span is until when callers ask again.
	Span time.Duration
	// Lost ends the run as soon as more requests than this are not on time, for a search that need not know
	// how many more. Nil: it does not.
	Lost *int
}

// patience is how long after the last arrival a run goes on, so that a run of a policy that keeps waking for nothing
// comes to an end.
const patience = 5 * time.Minute

// Run simulates one run. The requests must be in order of arrival; their fates are written into them. The error is a
// fault of the policy: a batch that its contract does not allow.
func Run(s *Setup, requests []Request, policy func(*Env) Policy) (*Result, error) {
	e := &engine{
		requests: requests,
		lanes:    newLanes(max(s.Lanes, 1), s.Overlap, s.Copying),
		noise:    newNoise(&s.Device, len(s.Models), s.Seed),
		pace:     s.Device.Pace,
		memory:   newMemory(s),
		lost:     s.Lost,
		thinks:   stream(s.Seed, 0), // the device has 1, and models have those from 2 on
		until:    Time(s.Span),
		result:   Result{Flows: make([]Tally, len(s.Models)), requests: requests},
		wake:     Never,
	}
	e.env = Env{Models: s.Models, Lanes: len(e.lanes.slots), Error: s.Error, drop: e.drop}
	e.policy = policy(&e.env)
	if s.Telemetry.Every > 0 {
		e.sampler = newSampler(s, e.policy)
	}
	if e.fault == nil {
		e.run()
	}
	if e.fault != nil {
		return nil, e.fault
	}
	e.result.Computed = e.lanes.computed
	return &e.result, nil
}

type engine struct {
	env      Env
	policy   Policy
	requests []Request
	arrived  int        // how many of them
	again    []*Request // of callers who think, the soonest last
	waits    []*Request // that came so
	thinks   *rand.Rand
	until    Time // they think for the last time
	waiting  int  // arrived, not running and not ended
	missed   int  // ended, and not on time
	lost     *int
	lanes    lanes
	noise    noise
	now      Pace
	pace     []Pace // changes to come
	memory   memory
	sampler  *sampler // nil: there is no telemetry
	wake     Time
	result   Result
	fault    error
}

// event is a kind of event. At one instant, events happen in this order.
type event uint8

const (
	nothing event = iota
	batchEnds
	computes
	paceChanges
	arrives
	samples
	wakes
)

func (e *engine) run() {
	end := Never
	if n := len(e.requests); n > 0 {
		end = max(e.requests[n-1].Arrival, e.until).Add(patience)
	}
	for e.fault == nil {
		now, what := e.next()
		if what == nothing || now > end {
			break
		}
		if e.lanes.inFlight == 0 && e.waiting > 0 {
			e.result.Idle += now.Sub(e.lanes.at)
		}
		e.lanes.advance(now)
		switch what {
		case batchEnds:
			e.finish(now)
		case computes:
			lane, _ := e.lanes.nextCompute()
			e.lanes.compute(lane)
		case paceChanges:
			e.now, e.pace = e.pace[0], e.pace[1:]
			e.lanes.speed = cmp.Or(e.now.Speed, 1)
		case arrives:
			e.arrive(now)
		case samples:
			e.sampler.sample(e)
		case nothing, wakes:
		}
		e.fill(now)
		if e.lost != nil && e.missed > *e.lost {
			return
		}
	}
	e.giveUp()
}

// next returns the next event and its time.
func (e *engine) next() (Time, event) {
	over := e.arrived == len(e.requests) && len(e.again) == 0 && e.waiting == 0 && e.lanes.inFlight == 0
	if over {
		return Never, nothing
	}
	at, what := e.lanes.nextEnd(), batchEnds
	if _, from := e.lanes.nextCompute(); from < at {
		at, what = from, computes
	}
	if len(e.pace) > 0 && e.pace[0].From < at {
		at, what = e.pace[0].From, paceChanges
	}
	if r := e.upcoming(); r != nil && r.Arrival < at {
		at, what = r.Arrival, arrives
	}
	if e.wake < at {
		at, what = e.wake, wakes
	}
	if at != Never && e.sampler != nil && e.sampler.at < at {
		at, what = e.sampler.at, samples
	}
	if at == Never {
		return Never, nothing
	}
	return at, what
}

// upcoming returns the request that arrives next, nil if none does.
func (e *engine) upcoming() *Request {
	n := len(e.again)
	if e.arrived < len(e.requests) {
		if first := &e.requests[e.arrived]; n == 0 || first.Arrival <= e.again[n-1].Arrival {
			return first
		}
	}
	if n > 0 {
		return e.again[n-1]
	}
	return nil
}

func (e *engine) arrive(now Time) {
	r := e.upcoming()
	if e.arrived < len(e.requests) && r == &e.requests[e.arrived] {
		e.arrived++
	} else {
		e.again = e.again[:len(e.again)-1]
		e.waits = append(e.waits, r)
	}
	e.waiting++
	e.result.tally(r).Offered++
	e.policy.Arrive(now, r)
}

// think has the caller of a request that has ended ask again, if he does.
func (e *engine) think(r *Request) {
	if r.Think == 0 {
		return
	}
	takes := r.Deadline.Sub(r.Arrival)
	at := r.Finish.Add(1 + time.Duration(float64(r.Think)*(0.5+e.thinks.Float64())))
	if r.Fate == Refused {
		at = at.Add(takes / 2) // as if there had been an answer
	}
	if at >= e.until {
		return
	}
	next := &Request{
		Model: r.Model, Key: r.Key, Identity: r.Identity, Rows: r.Rows, Priority: r.Priority, Think: r.Think,
		Arrival: at, Deadline: at.Add(takes),
	}
	i, _ := slices.BinarySearchFunc(e.again, at, func(r *Request, at Time) int { return cmp.Compare(at, r.Arrival) })
	e.again = slices.Insert(e.again, i, next)
}

// fill offers each free lane to the policy.
func (e *engine) fill(now Time) {
	e.wake = Never
	if e.lanes.inFlight == len(e.lanes.slots) || e.fault != nil {
		return
	}
	for i := range e.lanes.slots {
		if e.lanes.slots[i].batch != nil {
			continue
		}
		b := e.policy.Next(now, i)
		if b == nil || !e.allowed(now, b) {
			continue
		}
		b.Lane = i
		for _, r := range b.Requests {
			r.running = true
		}
		e.waiting -= len(b.Requests)
		e.lanes.start(i, b, e.work(b))
		e.result.Batches++
		e.result.Rows += b.Rows
		if b.OutOfMemory {
			e.result.OutOfMemory++
		}
	}
	if e.lanes.inFlight == len(e.lanes.slots) {
		return
	}
	e.wake = e.policy.Wake()
	if e.wake <= now && e.fault == nil {
		e.fault = fmt.Errorf("sim: at %v the policy left a lane free and wants to be woken at %v, which has come", now,
			e.wake)
	}
}

// work returns how long the batch takes if nothing else runs.
func (e *engine) work(b *Batch) time.Duration {
	m := &e.env.Models[b.Model]
	return time.Duration(float64(e.noise.of(b.Model, e.memory.cost(m, b, &e.now), m)) * e.now.slows(m))
}

// finish ends the batch that ends now.
func (e *engine) finish(now Time) {
	b, took := e.lanes.finish()
	for _, r := range b.Requests {
		r.running = false
		r.Fate, r.Finish = OnTime, now
		switch {
		case r.failed:
			r.Fate = Failed
		case now > r.Deadline:
			r.Fate = Late
		}
		e.end(r)
	}
	e.result.done(now, b, took)
	e.policy.Done(now, b, took)
	e.result.predicted(now, b, took)
}

// stream returns a source of random numbers of its own for each purpose of a run.
func stream(seed, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose*0x9e3779b97f4a7c15+1))
}
