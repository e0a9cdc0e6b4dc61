package sharedsched

import "time"

// Config holds the settings of a Core. They are fixed for its life, but devices may come and go (EventAddDevice).
type Config struct {
	Devices []Device
	// MaxQueuedBytes bounds the payload bytes that wait in all queues together. Zero: 1 GiB. Too low refuses bursts
	// that memory could hold; too high lets large requests exhaust the machine before a queue is full by count.
	MaxQueuedBytes int64
	Variant        Variant
}

// Device is one processor that executes batches.
type Device struct {
	Name string
	// Class groups devices on which the same batch takes the same time, such as "cpu".
	Class string
	// Lanes is how many batches may be in flight at once; each lane is one batch thread. At least 1.
	Lanes int
	// Handover is for lanes that share the device's time, so that batches side by side slow each other: the next one is
	// started when no more device time than this, or a quarter of a batch, is left of those in flight (handover.go). Too
	// low leaves the device idle while a batch is assembled and copied, too high holds it for longer than one batch.
	// Zero: each lane has a processor of its own, and takes its next batch as soon as it is free. It means nothing
	// where there is one lane.
	Handover time.Duration `json:",omitempty"`
}

// Variant switches parts of the algorithm off, so that the simulator can measure the worth of each of them. The zero
// value is the algorithm.
type Variant struct {
	LeastSlack     bool // order by latest start instead of target
	NoConflictRule bool // the earliest target goes first even if others are late for it
	AllDemand      bool // every queue with work demands service, urgent or not
	NoWindowDrop   bool // only hopeless tasks are given up

	NoDeviceCap bool `json:",omitempty"` // no batch is shorter for the targets of others
	NoBeside    bool `json:",omitempty"` // no batch starts beside another that is not about to end
	NoShares    bool `json:",omitempty"` // no flow is ever beyond its share
	NoAwait     bool `json:",omitempty"` // the device waits for nobody
	NoKeptLane  bool `json:",omitempty"` // no lane is kept for short batches
	NoFloodRule bool `json:",omitempty"` // in overload stale tasks keep their places
	NoCompany   bool `json:",omitempty"` // no batch has rows of several flows
	NoAdmission bool // only full queues refuse
}

// Time is a point on the scheduler's own clock: nanoseconds since it began. Core never reads a clock; every event
// brings its Time, so that a recorded trace replays bit for bit.
type Time int64

// Never is later than every event.
const Never Time = 1<<63 - 1

// Add returns t shifted by d, which must not be negative; Never where that is beyond all time.
func (t Time) Add(d time.Duration) Time {
	if Time(d) > Never-t {
		return Never
	}
	return t + Time(d)
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }
