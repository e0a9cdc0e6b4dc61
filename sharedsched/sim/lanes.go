package sim

import (
	"math"
	"time"
)

// lanes are the batches in flight. They share the device's speed equally.
type lanes struct {
	slots    []slot
	inFlight int
	overlap  float64 // work done per unit of time when two or more are in flight
	speed    float64
	at       Time // up to when the following are accounted

	// done is the work that a batch which ran throughout would have had done, share the device time it would have been charged.
	// Both in nanoseconds; exact integers while batches run one at a time at speed 1.
	done, share float64
	next        int // the slot whose batch ends first
}

type slot struct {
	batch *Batch
	end   float64 // the value of lanes.done at which it ends
	share float64 // the value of lanes.share at which it began
}

func newLanes(n int, overlap float64) lanes {
	if overlap == 0 {
		overlap = 1
	}
	return lanes{slots: make([]slot, n), overlap: overlap, speed: 1}
}

// rate is how fast each batch in flight goes.
func (l *lanes) rate() float64 {
	if l.inFlight < 2 {
		return l.speed
	}
	return l.speed * l.overlap / float64(l.inFlight)
}

func (l *lanes) advance(now Time) {
	if l.inFlight > 0 {
		passed := float64(now - l.at)
		l.done += passed * l.rate()
		l.share += passed / float64(l.inFlight)
	}
	l.at = now
}

// nextEnd returns when the next batch ends if nothing changes before, or Never.
func (l *lanes) nextEnd() Time {
	if l.inFlight == 0 {
		return Never
	}
	return l.at + Time(math.Ceil(max(0, l.slots[l.next].end-l.done)/l.rate()))
}

func (l *lanes) start(lane int, b *Batch, work time.Duration) {
	l.slots[lane] = slot{b, l.done + float64(work), l.share}
	l.inFlight++
	l.findNext()
}

// finish takes out the batch that ends now and returns it with its share of the device's busy time.
func (l *lanes) finish() (*Batch, time.Duration) {
	s := l.slots[l.next]
	l.slots[l.next] = slot{}
	l.inFlight--
	l.findNext()
	return s.batch, time.Duration(math.Round(l.share - s.share))
}

func (l *lanes) findNext() {
	l.next = -1
	for i := range l.slots {
		if s := &l.slots[i]; s.batch != nil && (l.next < 0 || s.end < l.slots[l.next].end) {
			l.next = i
		}
	}
}
