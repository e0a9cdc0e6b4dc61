package sim

import (
	"fmt"
	"slices"
	"time"
)

// Aftermath holds the effects of a change of the device, over several runs.
type Aftermath struct {
	Median, Worst Settling // of the runs, by each figure
	Missed        float64  // share of the requests of the second after the change that were not on time
	runs          []Settling
}

// Told holds the results of a scene of change played in one of its ways.
type Told struct {
	After       []Aftermath // by change
	Missed      float64     // share of all requests that were not on time
	Failed      float64     // that failed
	OutOfMemory float64     // batches that ran out of memory, for each run
}

func (t Told) String() string { return fmt.Sprintf("%.3f on time", 1-t.Missed) }

const (
	// backUnder is the prediction error that is good enough.
	backUnder = 0.1
	// judged is a number of batches since the change, up to and with one whose error is not good enough. That one
	// counts only if more than half of them are like it: a stall, or a model that little is known about, is no sign that
	// the change is not understood.
	judged = 9
	// atOnce is the number of batches whose median error is the error at once.
	atOnce    = 3
	aftermath = time.Second
	// shiftRuns is how many runs there are for each one of another scene.
	shiftRuns = 5
)

// Settling describes how the predictions of a run recovered from a change.
type Settling struct {
	Error   float64       // the median of the first batches
	Back    time.Duration // from the change to the beginning of the first batch from which on predictions are good again
	Batches int           // before that one
}

// settle looks at the batches that began after a change and before the next one.
func settle(predictions []Prediction, change, next Time) Settling {
	var begun []Time
	var errors []float64
	for _, p := range predictions {
		if began := p.End - Time(p.Took); began >= change && p.End < next {
			begun, errors = append(begun, began), append(errors, p.Error)
		}
	}
	if len(errors) < judged {
		return Settling{}
	}
	s := Settling{Error: quantile(slices.Clone(errors[:atOnce]), 0.5)}
	wrong := 0 // of the latest
	for i, e := range errors {
		if i >= judged && errors[i-judged] >= backUnder {
			wrong--
		}
		if e < backUnder {
			continue
		}
		if wrong++; 2*wrong > min(i+1, judged) {
			s.Batches = i + 1
		}
	}
	s.Back = begun[min(s.Batches, len(begun)-1)].Sub(change)
	return s
}

// Play runs the scene in one of its ways.
func (s *Shift) Play(p *Maker, e Effort) Told {
	pace := s.Workload.Pace(e.Span)
	t := Told{After: make([]Aftermath, len(pace))}
	var all Tally
	late := make([]Tally, len(pace))
	runs := e.Seeds * shiftRuns
	for i := range runs {
		r := s.Workload.Play(p, s.Load, e.Span, e.seed(i))
		total := r.Total()
		all.add(&total)
		t.OutOfMemory += float64(r.OutOfMemory) / float64(runs)
		for k := range pace {
			from, next := pace[k].From, Never
			if k+1 < len(pace) {
				next = pace[k+1].From
			}
			t.After[k].runs = append(t.After[k].runs, settle(r.Predictions, from, next))
			soon := r.Of(func(q *Request) bool { return q.Arrival >= from && q.Arrival < from.Add(aftermath) })
			late[k].add(&soon)
		}
	}
	for k := range pace {
		t.After[k].gather()
		t.After[k].Missed = 1 - late[k].Share()
	}
	t.Missed, t.Failed = 1-all.Share(), float64(all.Fates[Failed])/float64(max(all.Offered, 1))
	return t
}

func (a *Aftermath) gather() {
	var errors, back, batches []float64
	for _, s := range a.runs {
		errors, back, batches = append(errors, s.Error), append(back, float64(s.Back)),
			append(batches, float64(s.Batches))
	}
	at := func(part float64) Settling {
		return Settling{quantile(errors, part), time.Duration(quantile(back, part)), int(quantile(batches, part))}
	}
	a.Median, a.Worst = at(0.5), at(1)
}
