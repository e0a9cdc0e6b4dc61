package sharedsched

import "time"

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
