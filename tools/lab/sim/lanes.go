package sim

import (
	"cmp"
	"math"
	"time"
)

// lanes are the batches in flight. They share the device's speed equally, or, with an overlap of as many as there are
// lanes, have a processor each.
type lanes struct {
	slots    []slot
	inFlight int
	copying  float64 // the part of a batch, at its beginning, in which it does not compute
	computes int     // batches in flight that are past it
	overlap  float64 // work done per unit of time when two or more compute
	speed    float64
	at       Time // up to when the following are accounted

	// done is the work that a batch which ran throughout would have had done, share the device time it would have been
	// charged. Both in nanoseconds; exact integers while batches run one at a time at speed 1.
	done, share float64
	next        int           // the slot whose batch ends first
	computed    time.Duration // time with a batch computing
}

type slot struct {
	batch *Batch

	computes bool
	from     Time    // when it begins to compute
	end      float64 // the value of lanes.done at which it ends; before it computes, the work it has then
	share    float64 // the value of lanes.share at which it began
}

func newLanes(n int, overlap, copying float64) lanes {
	return lanes{slots: make([]slot, n), overlap: cmp.Or(overlap, 1), copying: copying, speed: 1}
}

// rate returns how fast each batch in flight goes.
func (l *lanes) rate() float64 {
	if l.computes < 2 {
		return l.speed
	}
	return l.speed * l.overlap / float64(l.computes)
}

func (l *lanes) advance(now Time) {
	if l.inFlight > 0 {
		passed := float64(now - l.at)
		if l.computes > 0 {
			l.done += passed * l.rate()
			l.computed += now.Sub(l.at)
		}
		if l.overlap < float64(len(l.slots)) {
			passed /= float64(l.inFlight)
		}
		l.share += passed
	}
	l.at = now
}

// nextEnd returns when the next batch ends if nothing changes before, or Never.
func (l *lanes) nextEnd() Time {
	if l.computes == 0 {
		return Never
	}
	return l.at + Time(math.Ceil(max(0, l.slots[l.next].end-l.done)/l.rate()))
}

func (l *lanes) start(lane int, b *Batch, work time.Duration) {
	copying := time.Duration(l.copying * float64(work))
	l.slots[lane] = slot{batch: b, from: l.at.Add(copying), end: float64(work - copying), share: l.share}
	l.inFlight++
	if copying == 0 {
		l.compute(lane)
	}
}

// compute makes the batch of a lane begin to compute.
func (l *lanes) compute(lane int) {
	s := &l.slots[lane]
	s.computes = true
	s.end += l.done
	l.computes++
	l.findNext()
}

// nextCompute returns the lane whose batch is the next to begin to compute, and when; Never if there is none.
func (l *lanes) nextCompute() (lane int, at Time) {
	at = Never
	for i := range l.slots {
		if s := &l.slots[i]; s.batch != nil && !s.computes && s.from < at {
			lane, at = i, s.from
		}
	}
	return lane, at
}

// finish takes out the batch that ends now and returns it with its share of the device's busy time.
func (l *lanes) finish() (*Batch, time.Duration) {
	s := l.slots[l.next]
	l.slots[l.next] = slot{}
	l.inFlight--
	l.computes--
	l.findNext()
	return s.batch, time.Duration(math.Round(l.share - s.share))
}

func (l *lanes) findNext() {
	l.next = -1
	for i := range l.slots {
		if s := &l.slots[i]; s.computes && (l.next < 0 || s.end < l.slots[l.next].end) {
			l.next = i
		}
	}
}
