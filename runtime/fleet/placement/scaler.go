package placement

import "time"

// Scaler decides on how many devices a version whose manifest says `replicas: auto` is to be. It learns once a second
// how the version fares. The zero value has learned nothing.
type Scaler struct {
	hot   int // seconds in a row that asked for a further replica
	quiet int // seconds in a row in which one fewer would have done
}

// Fare is how a version fared in one second.
type Fare struct {
	Replicas int
	// Refused counts requests that were refused for lack of room or time.
	Refused int
	// Waiting is the device time that its own unanswered requests are expected to take on each of its replicas: the
	// least of them.
	Waiting time.Duration
	// Used is the part of a second of one device that it used, over all replicas together.
	Used float64
	// Spare is how much of its time the least loaded device has left that could get a further replica; 0 if there is
	// none.
	Spare float64
}

const (
	// A replica is added after hotSeconds in a row and taken away after quietSeconds in a row. Adding is urgent,
	// because requests wait or are refused. Taking away only saves memory, and opening again takes seconds.
	hotSeconds   = 3
	quietSeconds = 60
	// muchWaiting is a backlog that a version in balance does not have.
	muchWaiting = 100 * time.Millisecond
	// enoughSpare is the share of a device's time that must be left for a further replica to be worth its memory. It is
	// far above the spare time that taking a replica away leaves to the others, so that one that was added is not soon
	// taken away.
	enoughSpare = 0.5
	// easy is how busy the remaining replicas may be, as a part of their time, when a replica is taken away.
	easy = 0.5
)

// Tick takes in a second and returns 1 for a further replica, -1 for one fewer, and 0 for neither. After either it
// begins to count from zero.
func (s *Scaler) Tick(f Fare) int {
	hot := f.Refused > 0 || f.Waiting >= muchWaiting
	quiet := !hot && f.Replicas > 1 && f.Used <= easy*float64(f.Replicas-1)
	s.hot, s.quiet = next(s.hot, hot), next(s.quiet, quiet)
	switch {
	case s.hot >= hotSeconds && f.Spare >= enoughSpare:
		*s = Scaler{}
		return 1
	case s.quiet >= quietSeconds:
		*s = Scaler{}
		return -1
	}
	return 0
}

// Hot reports whether the latest second asked for a further replica.
func (s *Scaler) Hot() bool { return s.hot > 0 }

// next counts the seconds in a row: one that is not so begins again.
func next(seconds int, on bool) int {
	if !on {
		return 0
	}
	return seconds + 1
}
