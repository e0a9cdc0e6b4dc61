package host

// memoryTeller is what a session has besides that knows what it takes of its device's memory.
type memoryTeller interface {
	// DeviceMemory returns bytes: the most that runs, and the weights beside them, ever occupied, and what the session holds on to.
	DeviceMemory() (peak, reserved int64, err error)
	// HeldMemory is what the session held on to when that was looked at last, which it does by itself while it runs. It never waits.
	HeldMemory() int64
}

// memoryGrowth learns, while ever larger batches are tried, what device memory a further row of an execution takes: the most that
// one took between two sizes, since what an operator needs may grow in steps.
type memoryGrowth struct {
	rows   int // of the largest batch so far; 0: none was seen
	peak   int64
	perRow int64 // 0: not known
}

// saw follows a batch of so many rows, more than any before.
func (g *memoryGrowth) saw(s Session, rows int) {
	tells, is := s.(memoryTeller)
	if !is {
		return
	}
	peak, _, err := tells.DeviceMemory()
	if err != nil {
		return
	}
	if g.rows > 0 {
		g.perRow = max(g.perRow, (peak-g.peak)/int64(rows-g.rows))
	}
	g.rows, g.peak = rows, peak
}

// measure has a session look at what it holds of its device's memory.
func measure(s Session) {
	if tells, is := s.(memoryTeller); is {
		_, _, _ = tells.DeviceMemory() // then what was seen before stays
	}
}

// held returns what tells how many bytes of its device's memory a session holds; nil if it does not tell.
func held(s Session) func() int64 {
	if tells, is := s.(memoryTeller); is {
		return tells.HeldMemory
	}
	return nil
}
