package sim

import (
	"slices"
	"time"
)

// Aftermath holds the effects of a change of the device, over several runs.
type Aftermath struct {
	Error float64 // of the first batches after it: the median over the runs of settling.error
	// Back is how long after it the first batch began from which on predictions were good again, and Batches how many
	// batches there were before: the median over the runs, and the worst of them.
	Back, WorstBack       time.Duration
	Batches, WorstBatches int
	Missed                float64 // share of the requests of the second after it that were not on time
}

// Told holds the results of a scene of change played in one of its ways.
type Told struct {
	After       []Aftermath // by change
	Missed      float64     // share of all requests that were not on time
	Failed      float64     // that failed
	OutOfMemory float64     // batches that ran out of memory, for each run
	settlings   [][]settling
}

const (
	// backUnder is the prediction error that is good enough.
	backUnder = 0.1
	// judged is a number of batches since the change, up to and with one whose error is not good enough. That one
	// counts only if more than half of them are like it: a stall, or a model of which little is known, is no sign that
	// the change is not understood.
	judged = 9
	// atOnce is the number of batches whose median error is the error at once.
	atOnce    = 3
	aftermath = time.Second
	// shiftRuns is how many runs there are for each one of another scene.
	shiftRuns = 5
)

// settling describes how the predictions of a run recovered from a change.
type settling struct {
	error   float64       // the median of the first batches
	back    time.Duration // from the change to the beginning of the first batch after them
	batches int           // up to and with the last that counts
}

// settle looks at the batches that began after a change and before the next one.
func settle(predictions []Prediction, change, next Time) settling {
	var begun []Time
	var errors []float64
	for _, p := range predictions {
		if began := p.End - Time(p.Took); began >= change && p.End < next {
			begun, errors = append(begun, began), append(errors, p.Error)
		}
	}
	if len(errors) < judged {
		return settling{}
	}
	s := settling{error: quantile(slices.Clone(errors[:atOnce]), 0.5)}
	wrong := 0 // of the latest
	for i, e := range errors {
		if i >= judged && errors[i-judged] >= backUnder {
			wrong--
		}
		if e < backUnder {
			continue
		}
		if wrong++; 2*wrong > min(i+1, judged) {
			s.batches = i + 1
		}
	}
	s.back = begun[min(s.batches, len(begun)-1)].Sub(change)
	return s
}

// Play runs the scene in one of its ways.
func (s *Shift) Play(p *Maker, e Effort) (Told, error) {
	pace := s.Workload.Pace(e.Span)
	t := Told{After: make([]Aftermath, len(pace)), settlings: make([][]settling, len(pace))}
	var all Tally
	late := make([]Tally, len(pace))
	runs := e.Seeds * shiftRuns
	for i := range runs {
		r, err := s.Workload.Play(p, s.Load, e.Span, e.seed(i))
		if err != nil {
			return Told{}, err
		}
		total := r.Total()
		all.add(&total)
		t.OutOfMemory += float64(r.OutOfMemory) / float64(runs)
		for k := range pace {
			next := Never
			if k+1 < len(pace) {
				next = pace[k+1].From
			}
			t.settlings[k] = append(t.settlings[k], settle(r.Predictions, pace[k].From, next))
			late[k].count(r.requests, pace[k].From, pace[k].From.Add(aftermath))
		}
	}
	for k := range pace {
		t.After[k] = gather(t.settlings[k])
		t.After[k].Missed = 1 - late[k].Share()
	}
	t.Missed, t.Failed = 1-all.Share(), float64(all.Failed)/float64(max(all.Offered, 1))
	return t, nil
}

// count counts the requests that arrived in a time.
func (t *Tally) count(requests []Request, from, to Time) {
	for i := range requests {
		if r := &requests[i]; r.Arrival >= from && r.Arrival < to {
			t.Offered++
			if r.Fate == OnTime {
				t.OnTime++
			}
		}
	}
}

func gather(runs []settling) Aftermath {
	var errors, back, batches []float64
	for _, s := range runs {
		errors, back, batches = append(errors, s.error), append(back, float64(s.back)),
			append(batches, float64(s.batches))
	}
	return Aftermath{
		Error: quantile(errors, 0.5),
		Back:  time.Duration(quantile(back, 0.5)), WorstBack: time.Duration(slices.Max(back)),
		Batches: int(quantile(batches, 0.5)), WorstBatches: int(slices.Max(batches)),
	}
}
