package sim

import "time"

// recorder counts the events of a run.
type recorder struct {
	models  []Model
	flows   []Tally // by model
	busy    time.Duration
	idle    time.Duration
	batches int
	rows    int
	oom     int  // batches that ran out of memory
	last    Time // the last end of a batch
	// predictions are of the batches whose estimate the policy stated, in order of their ends.
	predictions []Prediction
}

func newRecorder(s *Setup) *recorder {
	return &recorder{models: s.Models, flows: make([]Tally, len(s.Models))}
}

func (c *recorder) arrive(r *Request) { c.flows[r.Model].Offered++ }

func (c *recorder) start(b *Batch) {
	c.batches++
	c.rows += b.Rows
	if b.OutOfMemory {
		c.oom++
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

// predicted compares the time that a batch took with the estimate. A batch that ran out of memory is left out: it was
// not the one expected.
func (c *recorder) predicted(now Time, b *Batch, took time.Duration) {
	if b.Estimate <= 0 || b.OutOfMemory {
		return
	}
	e := float64(took)/float64(b.Estimate) - 1
	c.predictions = append(c.predictions, Prediction{End: now, Took: took, Error: max(e, -e)})
}

func (c *recorder) result(requests []Request, computed time.Duration) *Result {
	res := &Result{
		Flows: c.flows, Busy: c.busy, Computed: computed, Idle: c.idle, Batches: c.batches, OutOfMemory: c.oom,
		End:         c.last,
		Predictions: c.predictions, requests: requests, models: c.models,
	}
	if n := len(requests); n > 0 {
		res.Span = time.Duration(requests[n-1].Arrival)
	}
	if c.batches > 0 {
		res.MeanBatch = float64(c.rows) / float64(c.batches)
	}
	return res
}
