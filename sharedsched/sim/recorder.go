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
	oom     int  // batches that ran out of memory
	last    Time // the last end of a batch
	detail  *detail
}

// detail is what costs time to measure.
type detail struct {
	lag         lag
	predictions []Prediction // in order of their ends
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
	if b.OutOfMemory {
		c.oom++
	}
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
	case Failed:
		t.Failed++
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

// predicted compares what a batch took with what was expected. One that ran out of memory was not what was expected.
func (c *recorder) predicted(now Time, b *Batch, took time.Duration) {
	if c.detail == nil || b.Estimate <= 0 || b.OutOfMemory {
		return
	}
	e := float64(took)/float64(b.Estimate) - 1
	c.detail.predictions = append(c.detail.predictions, Prediction{End: now, Took: took, Error: max(e, -e)})
}

func (c *recorder) result(requests []Request, computed time.Duration) *Result {
	res := &Result{Flows: c.flows, Busy: c.busy, Computed: computed, Idle: c.idle, Batches: c.batches, OutOfMemory: c.oom, End: c.last, requests: requests, models: c.models}
	if n := len(requests); n > 0 {
		res.Span = time.Duration(requests[n-1].Arrival)
	}
	if c.batches > 0 {
		res.MeanBatch = float64(c.rows) / float64(c.batches)
	}
	if c.detail != nil {
		res.Lag = c.detail.lag.worst
		res.Predictions = c.detail.predictions
		var errors []float64
		for _, p := range res.Predictions {
			errors = append(errors, p.Error)
		}
		res.PredictionMedian, res.Prediction95 = quantile(errors, 0.5), quantile(errors, 0.95)
	}
	return res
}
