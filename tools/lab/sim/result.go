package sim

import (
	"slices"
	"time"
)

// Result holds the results of a run.
type Result struct {
	Flows    []Tally       // by model, without shadows
	Shadows  Tally         // requests whose answers nobody waits for
	End      Time          // of the last batch
	Busy     time.Duration // device time of all batches
	Computed time.Duration // time with at least one of them past copying
	Idle     time.Duration // time with work waiting and no batch in flight
	Batches  int
	Rows     int // in the batches
	// OutOfMemory counts the batches that memory did not suffice for.
	OutOfMemory int

	Predictions []Prediction // of the batches whose estimate the policy stated, in order of their ends

	requests []Request // without those of callers who asked again
}

// Prediction compares the time that a batch took with the estimate.
type Prediction struct {
	End   Time
	Took  time.Duration // of device time
	Error float64       // |actual/estimate - 1|
}

// Tally counts requests, and the device time spent on them.
type Tally struct {
	Offered int
	Fates   [Dropped + 1]int // of the requests that ended

	Useful time.Duration // of their batches' device time, the share of requests on time, by rows
	Wasted time.Duration // of it, the share of late ones
}

// tally is where a request counts.
func (r *Result) tally(q *Request) *Tally {
	if q.background() {
		return &r.Shadows
	}
	return &r.Flows[q.Model]
}

// Share returns the share of the offered requests that were on time; 1 if there were none.
func (t *Tally) Share() float64 {
	if t.Offered == 0 {
		return 1
	}
	return float64(t.Fates[OnTime]) / float64(t.Offered)
}

// missed returns how many requests ended, and not on time.
func (t *Tally) missed() int {
	return t.Fates[Late] + t.Fates[Failed] + t.Fates[Refused] + t.Fates[Dropped]
}

func (t *Tally) add(u *Tally) {
	t.Offered += u.Offered
	for f, n := range u.Fates {
		t.Fates[f] += n
	}
	t.Useful += u.Useful
	t.Wasted += u.Wasted
}

// done records a batch that ended.
func (r *Result) done(now Time, b *Batch, took time.Duration) {
	r.End = now
	r.Busy += took
	t := r.tally(b.Requests[0])
	onTime := 0
	for _, q := range b.Requests {
		if q.Fate == OnTime {
			onTime += q.Rows
		}
	}
	useful := took * time.Duration(onTime) / time.Duration(b.Rows)
	t.Useful += useful
	t.Wasted += took - useful
}

// predicted compares the time that a batch took with the estimate, if there is one. A batch that ran out of memory is
// left out: it was not the one expected.
func (r *Result) predicted(now Time, b *Batch, took time.Duration) {
	if b.Estimate > 0 && !b.OutOfMemory {
		e := float64(took)/float64(b.Estimate) - 1
		r.Predictions = append(r.Predictions, Prediction{End: now, Took: took, Error: max(e, -e)})
	}
}

// Span returns the time from the beginning to the last arrival.
func (r *Result) Span() time.Duration {
	if len(r.requests) == 0 {
		return 0
	}
	return time.Duration(r.requests[len(r.requests)-1].Arrival)
}

// Total returns the sum over all flows.
func (r *Result) Total() Tally {
	var sum Tally
	for i := range r.Flows {
		sum.add(&r.Flows[i])
	}
	return sum
}

// Of counts the requests for which chosen is true. Device time is not divided among them.
func (r *Result) Of(chosen func(*Request) bool) Tally {
	var t Tally
	for i := range r.requests {
		if q := &r.requests[i]; chosen(q) {
			t.Offered++
			t.Fates[q.Fate]++
		}
	}
	return t
}

// fewest is how many requests a flow must have offered to be judged alone.
const fewest = 20

// Worst returns the smallest share on time among the flows that offered a number of requests worth judging.
func (r *Result) Worst() float64 {
	worst := 1.0
	for i := range r.Flows {
		if t := &r.Flows[i]; t.Offered >= fewest {
			worst = min(worst, t.Share())
		}
	}
	return worst
}

// Latency returns a quantile of the time from arrival to answer over all requests that were answered.
func (r *Result) Latency(at float64) time.Duration {
	var took []float64
	for i := range r.requests {
		if q := &r.requests[i]; q.Fate == OnTime || q.Fate == Late {
			took = append(took, float64(q.Finish-q.Arrival))
		}
	}
	return time.Duration(quantile(took, at))
}

// quantile sorts the values. It is 0 if there are none.
func quantile(values []float64, at float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(at*float64(len(values))), len(values)-1)]
}
