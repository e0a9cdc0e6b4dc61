// Package fairq shares a device among flows in proportion to their weights, measured in device time.
//
// It is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with the cost of each piece of work charged by estimate
// when it starts and corrected by measurement when it ends. Each flow has a start tag: the device time it was charged so far,
// divided by its weight. The flow with the smallest tag goes next. The virtual time is the largest tag that was ever served;
// a flow that comes back from idleness continues at the virtual time, so that idling earns no credit.
//
// Between two flows i and j that both have work throughout an interval, the difference of the weighted service they receive in
// it is at most C_i/w_i + C_j/w_j, where C is the largest cost of a single piece of work: when i is served its tag is the
// smallest, so it never leads a competitor by more than that one piece, and the same holds for j. With D pieces in flight, C
// becomes D*C, counting for each piece the larger of estimate and measurement.
package fairq

import (
	"math"
	"time"

	"github.com/weftserve/weft/sharedsched/iheap"
)

// Flow names a flow of a Queue.
type Flow int32

// Tag is virtual time: nanoseconds of device time per unit of weight.
type Tag int64

// Queue is the set of flows that share a device. The zero value is empty.
type Queue struct {
	flows  []flow
	active iheap.Heap // flows with work, by start tag
	now    Tag        // the virtual time; never decreases
}

type flow struct {
	weight int64 // in thousandths, so that tags are exact on every processor
	start  Tag
}

const weightUnit = 1000

// MinWeight and MaxWeight bound what a weight may be.
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
	q.active.Remove(int32(f))
	q.flows[f] = flow{weight: weightUnit}
}

// Activate says that f has work. A flow that had none continues at the virtual time if its tag is behind it.
func (q *Queue) Activate(f Flow) {
	if q.active.Has(int32(f)) {
		return
	}
	fl := &q.flows[f]
	fl.start = max(fl.start, q.now)
	q.active.Set(int32(f), int64(fl.start))
}

// Deactivate says that f has no more work.
func (q *Queue) Deactivate(f Flow) { q.active.Remove(int32(f)) }

// IsActive reports whether f has work.
func (q *Queue) IsActive(f Flow) bool { return q.active.Has(int32(f)) }

// HasActive reports whether any flow has work.
func (q *Queue) HasActive() bool { return q.active.Len() > 0 }

// Next returns the active flow with the smallest start tag. It reports false when no flow is active.
func (q *Queue) Next() (Flow, bool) {
	f, _, ok := q.active.Min()
	return Flow(f), ok
}

// Charge serves f: the virtual time reaches its start tag, and the tag advances by the estimated cost over the weight.
func (q *Queue) Charge(f Flow, cost time.Duration) {
	q.now = max(q.now, q.flows[f].start)
	q.advance(f, int64(cost))
}

// Correct settles a charge: delta is the measured cost less the estimate. A refund may take the tag below the virtual time while
// the flow has work: it is owed that service. (To hold tags at the virtual time instead loses refunds for good whenever other
// flows were served meanwhile, and with them the bound.)
func (q *Queue) Correct(f Flow, delta time.Duration) { q.advance(f, int64(delta)) }

func (q *Queue) advance(f Flow, cost int64) {
	fl := &q.flows[f]
	fl.start += Tag(cost * weightUnit / fl.weight)
	if q.active.Has(int32(f)) {
		q.active.Set(int32(f), int64(fl.start))
	}
}

// Start returns the start tag of f.
func (q *Queue) Start(f Flow) Tag { return q.flows[f].start }

// Now returns the virtual time.
func (q *Queue) Now() Tag { return q.now }
