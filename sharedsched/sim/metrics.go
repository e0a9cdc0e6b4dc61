package sim

import (
	"slices"
	"time"
)

// Result holds the results of a run.
type Result struct {
	Flows     []Tally       // by model
	Span      time.Duration // from the beginning to the last arrival
	End       Time          // of the last batch
	Busy      time.Duration // device time of all batches
	Computed  time.Duration // time with at least one of them past copying
	Idle      time.Duration // time with foreground work waiting and no batch in flight
	Batches   int
	MeanBatch float64 // rows
	// OutOfMemory counts the batches that memory did not suffice for.
	OutOfMemory int

	Predictions []Prediction // of the batches whose estimate the policy stated, in order of their ends

	requests []Request
	models   []Model
}

// Prediction compares the time that a batch took with the estimate.
type Prediction struct {
	End   Time
	Took  time.Duration // of device time
	Error float64       // |actual/estimate - 1|
}

// Tally counts the requests of one flow, and the device time spent on them.
type Tally struct {
	Offered, OnTime, Late, Failed, Refused, Dropped int

	Device time.Duration // of its batches
	Useful time.Duration // of that, the share of requests on time, by rows
	Wasted time.Duration // of that, the share of late ones
}

// Share returns the share of the offered requests that were on time; 1 if there were none.
func (t *Tally) Share() float64 {
	if t.Offered == 0 {
		return 1
	}
	return float64(t.OnTime) / float64(t.Offered)
}

func (t *Tally) add(u *Tally) {
	t.Offered += u.Offered
	t.OnTime += u.OnTime
	t.Late += u.Late
	t.Failed += u.Failed
	t.Refused += u.Refused
	t.Dropped += u.Dropped
	t.Device += u.Device
	t.Useful += u.Useful
	t.Wasted += u.Wasted
}

// Total returns the sum over all foreground flows.
func (r *Result) Total() Tally {
	var sum Tally
	for i := range r.Flows {
		if !r.models[i].Background {
			sum.add(&r.Flows[i])
		}
	}
	return sum
}

// Of returns the sum over those flows for which chosen is true.
func (r *Result) Of(chosen []bool) Tally {
	var sum Tally
	for i := range r.Flows {
		if chosen[i] && !r.models[i].Background {
			sum.add(&r.Flows[i])
		}
	}
	return sum
}

// fewest is how many requests a flow must have offered to be judged alone.
const fewest = 20

// Worst returns the smallest share on time among the foreground flows that offered a number of requests worth judging.
func (r *Result) Worst() float64 {
	worst := 1.0
	for i := range r.Flows {
		if t := &r.Flows[i]; t.Offered >= fewest && !r.models[i].Background {
			worst = min(worst, t.Share())
		}
	}
	return worst
}

// Latency returns quantiles of the time from arrival to answer over all that were answered.
func (r *Result) Latency(quantiles ...float64) []time.Duration {
	var took []float64
	for i := range r.requests {
		if q := &r.requests[i]; q.Fate == OnTime || q.Fate == Late {
			took = append(took, float64(q.Finish-q.Arrival))
		}
	}
	slices.Sort(took)
	out := make([]time.Duration, len(quantiles))
	for i, at := range quantiles {
		out[i] = time.Duration(ofSorted(took, at))
	}
	return out
}

func quantile(values []float64, at float64) float64 {
	slices.Sort(values)
	return ofSorted(values, at)
}

func ofSorted(values []float64, at float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[min(int(at*float64(len(values))), len(values)-1)]
}
