// Package fairq shares a device among flows in proportion to their weights, measured in device time, and knows which of
// them is due first and which is furthest behind.
//
// It is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), with the cost of each piece of work charged by
// estimate when it starts and corrected by measurement when it ends. Each flow has a start tag: the device time it was
// charged so far, divided by its weight. The virtual time is the largest least tag there ever was of the flows that
// demand service; a flow that comes back continues there, so that resting earns no credit.
//
// Where the flow furthest behind is served each time, the weighted service that two flows i and j receive in an
// interval throughout which both demand it differs by at most C_i/w_i + C_j/w_j, where w is the weight and C the
// largest cost of a single piece of work: when i is served its tag is the least, so never more than C_i/w_i above that
// of j, and the same holds for j. That is with one piece in flight and exact estimates; the documentation of package
// sharedsched has the bound for other cases.
package fairq

import (
	"math"
	"time"
)

// Flow names a flow of a Queue.
type Flow int32

// Tag is virtual time: nanoseconds of device time per unit of weight.
type Tag int64

// Queue is the set of flows that share a device. The zero value is empty and has no window: strictly the flow furthest
// behind is served.
type Queue struct {
	flows  []flow
	demand tree // flows that demand service
	now    Tag  // the virtual time; never decreases, but for shift
	step   Tag  // by how much the least tag advanced when a flow that demanded service was charged last
}

type flow struct {
	weight int64 // in thousandths, so that tags are exact on every processor
	start  Tag
	lift   Tag // by how much its tag was raised when it began to demand, until it is served
}

const weightUnit = 1000

// MinWeight and MaxWeight are the bounds of a weight.
const (
	MinWeight = 0.001
	MaxWeight = 1e6
)

// Set adds flow f with a weight, or changes its weight from now on. The weight is clamped to MinWeight and MaxWeight.
func (q *Queue) Set(f Flow, weight float64) {
	for int(f) >= len(q.flows) {
		q.flows = append(q.flows, flow{weight: weightUnit})
	}
	q.flows[f].weight = int64(math.Round(min(max(weight, MinWeight), MaxWeight) * weightUnit))
}

// Remove forgets f.
func (q *Queue) Remove(f Flow) {
	q.Rest(f)
	q.flows[f] = flow{weight: weightUnit}
}

// Demand says that f demands service, which is due by a time. A flow that did not demand any continues at the virtual
// time if its tag is behind it.
func (q *Queue) Demand(f Flow, due int64) {
	fl := &q.flows[f]
	if !q.demand.has(int32(f)) {
		fl.lift = max(0, q.now-fl.start)
		fl.start += fl.lift
	}
	q.demand.set(int32(f), due, fl.start)
}

// Rest says that f demands no service any more. If it was not served meanwhile that changed nothing.
func (q *Queue) Rest(f Flow) {
	if q.demand.has(int32(f)) {
		q.demand.remove(int32(f))
		q.flows[f].start -= q.flows[f].lift
	}
}

// Demands reports whether f demands service.
func (q *Queue) Demands(f Flow) bool { return q.demand.has(int32(f)) }

// Len returns how many flows demand service.
func (q *Queue) Len() int { return q.demand.size }

// First returns the flow that is due first. It reports false when no flow demands service.
func (q *Queue) First() (Flow, bool) {
	if q.demand.size == 0 {
		return 0, false
	}
	return Flow(q.demand.first()), true
}

// Behind returns the flow with the least tag among the flows that are due before a time. It reports false when there is
// none.
func (q *Queue) Behind(before int64) (Flow, bool) {
	f := q.demand.behind(before)
	return Flow(f), f != none
}

// Lead returns how far f, which demands service, is ahead of the flow that is furthest behind.
func (q *Queue) Lead(f Flow) Tag { return q.flows[f].start - q.demand.least() }

// Charge serves f: the virtual time follows, and the tag of f advances by the estimated cost over the weight.
func (q *Queue) Charge(f Flow, cost time.Duration) {
	if q.demand.size > 0 {
		q.now = max(q.now, q.demand.least())
	} else {
		q.now = max(q.now, q.flows[f].start) // served although it did not demand it
	}
	if fl := &q.flows[f]; q.demand.has(int32(f)) {
		before := q.demand.least()
		q.advance(f, int64(cost))
		q.step, fl.lift = q.demand.least()-before, 0
	} else {
		// Its tag would be lifted when it begins to demand, and with it the charge wiped out, but not a refund of it. For
		// the latest that was served on demand it may have waited.
		fl.start = max(fl.start, q.now-q.step)
		q.advance(f, int64(cost))
	}
	if q.now > mostTag {
		q.shift(q.now)
	}
}

// mostTag is when tags begin anew, so that they never overflow: in 36 years of a device's time at the weight 1, in 13
// days at the least one.
const mostTag Tag = 1 << 60

// shift takes an amount off all times: only their differences mean anything.
func (q *Queue) shift(by Tag) {
	for i := range q.flows {
		q.flows[i].start = max(q.flows[i].start, -by) - by // a flow that rested for ever is lifted in any case
	}
	q.demand.shift(by)
	q.now -= by
}

// Correct settles a charge: delta is the measured cost less the estimate. A refund may take the tag below the virtual
// time while the flow has work: it is owed that service. (To hold tags at the virtual time instead loses refunds for
// good whenever other flows were served meanwhile, and with them the bound.)
func (q *Queue) Correct(f Flow, delta time.Duration) { q.advance(f, int64(delta)) }

func (q *Queue) advance(f Flow, cost int64) {
	fl := &q.flows[f]
	fl.start += Tag(cost * weightUnit / fl.weight)
	if q.demand.has(int32(f)) {
		q.demand.retag(int32(f), fl.start)
	}
}

// Start returns the start tag of f.
func (q *Queue) Start(f Flow) Tag { return q.flows[f].start }

// Now returns the virtual time.
func (q *Queue) Now() Tag { return q.now }
