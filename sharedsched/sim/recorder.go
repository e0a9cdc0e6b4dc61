package sim

import "time"

// recorder counts what happens in a run.
type recorder struct {
	models  []Model
	flows   []Tally // by model
	busy    time.Duration
	idle    time.Duration
	batches int
	rows    int
	last    Time // the last end of a batch
	detail  *detail
}

// detail is what costs time to measure.
type detail struct {
	lag    lag
	errors []float64 // |actual/estimate - 1| of each batch with an estimate
}

func newRecorder(s *Setup) *recorder {
	r := &recorder{models: s.Models, flows: make([]Tally, len(s.Models))}
	if s.Detail {
		r.detail = &detail{lag: newLag(s.Models)}
	}
	return r
}

func (c *recorder) arrive(_ Time, r *Request) {
	c.flows[r.Model].Offered++
	if c.detail != nil {
		c.detail.lag.arrive(r.Model)
	}
}

func (c *recorder) start(_ Time, b *Batch, work time.Duration) {
	c.batches++
	c.rows += b.Rows
	if c.detail != nil {
		c.detail.lag.serve(b.Model, work, len(b.Requests))
	}
}

// end counts the fate of a request.
func (c *recorder) end(r *Request) {
	t := &c.flows[r.Model]
	switch r.Fate {
	case OnTime:
		t.OnTime++
	case Late:
		t.Late++
	case Refused:
		t.Refused++
	case Dropped:
		t.Dropped++
	case Waiting:
	}
}

// left tells that a request left its queue without being served.
func (c *recorder) left(r *Request) {
	if c.detail != nil {
		c.detail.lag.leave(r.Model, 1)
	}
}

func (c *recorder) done(now Time, b *Batch, took time.Duration) {
	c.busy += took
	c.last = now
	t := &c.flows[b.Model]
	t.Device += took
	onTime := 0
	for _, r := range b.Requests {
		if r.Fate == OnTime {
			onTime += r.Rows
		}
	}
	useful := took * time.Duration(onTime) / time.Duration(b.Rows)
	t.Useful += useful
	t.Wasted += took - useful
}

func (c *recorder) predicted(b *Batch, took time.Duration) {
	if c.detail == nil || b.Estimate <= 0 {
		return
	}
	e := float64(took)/float64(b.Estimate) - 1
	c.detail.errors = append(c.detail.errors, max(e, -e))
}

func (c *recorder) result(requests []Request) *Result {
	res := &Result{Flows: c.flows, Busy: c.busy, Idle: c.idle, Batches: c.batches, End: c.last, requests: requests, models: c.models}
	if n := len(requests); n > 0 {
		res.Span = time.Duration(requests[n-1].Arrival)
	}
	if c.batches > 0 {
		res.MeanBatch = float64(c.rows) / float64(c.batches)
	}
	if c.detail != nil {
		res.Lag = c.detail.lag.worst
		res.PredictionMedian = quantile(c.detail.errors, 0.5)
		res.Prediction95 = quantile(c.detail.errors, 0.95)
	}
	return res
}
