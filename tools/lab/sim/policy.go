package sim

import (
	"math/rand/v2"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Time is virtual time: nanoseconds since the simulation began.
type Time = sharedsched.Time

// Never is later than every event.
const Never = sharedsched.Never

// Request is one simulated request.
type Request struct {
	Model    int // index into Suite models
	Key      int // shape key within the model; requests of different keys never share a batch
	Identity int // who is charged, from 1 on; 0: nobody who is known. Only the server's scheduler asks
	Rows     int
	Arrival  Time
	Deadline Time
	Priority sharedsched.Priority // only the server's scheduler has them
	// Think is how long after an answer its caller asks again, on average; 0: never.
	Think time.Duration

	Fate   Fate // set by the engine, or by Env.Drop
	Finish Time // when the fate was decided

	// Slot is free for the policy's own use, such as an index.
	Slot int

	running bool // in a batch
	failed  bool // in the batch that runs
}

// background reports whether nobody waits for the answer.
func (r *Request) background() bool { return r.Priority == sharedsched.Sheddable }

// Fate is how a request ended.
type Fate uint8

// The fates.
const (
	Waiting Fate = iota // it has not ended yet
	OnTime              // answered by its deadline
	Late                // answered after it: device time spent for nothing
	Failed              // executed for nothing: memory did not suffice
	Refused             // turned away on arrival
	Dropped             // given up in the queue
)

// Policy chooses the batches of a simulated device. The engine calls it from one goroutine, with times that never
// decrease.
//
// After every event (an arrival, the end of a batch, a wake-up) the engine calls Next for each free lane until it
// returns nil.
type Policy interface {
	// Arrive queues a request, or ends it with Env.Drop(r, Refused).
	Arrive(now Time, r *Request)
	// Next returns the batch that a free lane starts now, or nil to leave the lane free. The batch and its slice belong
	// to the policy again once Done was called with it. Requests that are given up are ended with Env.Drop(r, Dropped).
	Next(now Time, lane int) *Batch
	// Done reports that a batch ended, and the device time that it took. The engine has settled the fates of its
	// requests.
	Done(now Time, b *Batch, took time.Duration)
	// Wake returns when Next is to be asked again though nothing else happens, Never if that is not needed. It is asked
	// after Next left a lane free, and must lie in the future.
	Wake() Time
}

// Batch is one execution that a policy chose: requests of one model and key.
type Batch struct {
	Model    int
	Requests []*Request
	Rows     int // the sum over the requests
	Size     int // rows executed: Rows, or more with padding
	Lane     int // set by the engine
	// OutOfMemory says that memory did not suffice for the batch, so that it ran again in halves. Set by the engine.
	OutOfMemory bool
	// Estimate is how long the policy expected the batch to take, 0 if it does not say. It may be set as late as in
	// Done.
	Estimate time.Duration
}

// Env is a policy's view of the world: the models with their profiled costs, and a way to give requests up.
type Env struct {
	Models []Model
	// Lanes is how many batches may be in flight. With more than one they share the device's speed, see Maker.Overlap.
	Lanes int
	// Error holds, per model, the factor by which profiles are wrong, for experiments with wrong cost models. Nil: all
	// 1.
	Error []float64
	drop  func(now Time, r *Request, f Fate)
}

// Profile returns the time that a policy expects of an execution of that many rows of a model: the true cost without
// noise, times the model's Error.
func (e *Env) Profile(model, rows int) time.Duration {
	d := e.Models[model].Cost(rows)
	if e.Error != nil {
		d = time.Duration(float64(d) * e.Error[model])
	}
	return d
}

// Drop ends a request that is not in a batch: f is Refused or Dropped.
func (e *Env) Drop(now Time, r *Request, f Fate) { e.drop(now, r, f) }

// Model is a simulated model.
type Model struct {
	Name     string
	Base     time.Duration // of an execution
	PerRow   time.Duration
	Steps    []time.Duration // if set, the measured cost of 1, 2, ... rows instead
	SLO      time.Duration   // from arrival to deadline
	Target   time.Duration   // when callers say they want the answer, if sooner than the deadline; it only orders
	MaxBatch int
	MaxCost  time.Duration // of one batch, where the policy has such a limit; 0: none
	Weight   float64       // share of the device; 0 counts as 1
	Keys     int           // shape keys its requests are spread over; 0 counts as 1
	Rate     float64       // requests per second at load 1
	Cold     bool          // its costs are unknown at first
	Inherits string        // the model whose costs stand in for its own while those are unknown; empty: none
	Mix      []Wish        // what callers want, in place of SLO, where they do not want the same
	// Identities are who its requests are of, the first one number 1 in all models: each one's part of them, in
	// proportion to others. None: nobody is known.
	Identities []float64

	// By how much its executions take longer for a change of the device: the part of their time that goes with the
	// inverse of the clock, and how much the share of the device that other processes use adds to them, relative to
	// itself.
	ClockShare, CoTenantGain float64
	// RowMemory is the device memory, in bytes, that each row of its largest execution so far holds.
	RowMemory int64
}

// Wish is what some callers of a model want.
type Wish struct {
	Share    float64       // of the callers, in proportion to others
	SLO      time.Duration // from arrival to deadline
	Priority sharedsched.Priority
}

// wish draws what a caller wants.
func (m *Model) wish(draw *rand.Rand) Wish {
	if len(m.Mix) == 0 {
		return Wish{SLO: m.SLO}
	}
	return m.Mix[oneOf(draw, len(m.Mix), func(i int) float64 { return m.Mix[i].Share })]
}

// identity draws who a request is of.
func (m *Model) identity(draw *rand.Rand) int {
	if len(m.Identities) == 0 {
		return 0
	}
	return 1 + oneOf(draw, len(m.Identities), func(i int) float64 { return m.Identities[i] })
}

// oneOf draws one of n things, in proportion to their shares.
func oneOf(draw *rand.Rand, n int, share func(int) float64) int {
	sum := 0.0
	for i := range n {
		sum += share(i)
	}
	at := draw.Float64() * sum
	for i := 1; i < n; i++ {
		if at -= share(i); at < 0 {
			return i
		}
	}
	return 0
}

// Cost returns the true device time of an execution of that many rows, without noise.
func (m *Model) Cost(rows int) time.Duration {
	if n := len(m.Steps); n > 0 {
		if rows <= n {
			return m.Steps[rows-1]
		}
		return m.Steps[n-1] * time.Duration(rows) / time.Duration(n)
	}
	return m.Base + time.Duration(rows)*m.PerRow
}
