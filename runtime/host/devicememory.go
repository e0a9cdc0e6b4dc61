package host

// memoryTeller is what a session has besides that knows what it takes of its device's memory.
type memoryTeller interface {
	// DeviceMemory returns bytes: the most that runs, and the weights beside them, ever occupied, and what the session holds on to.
	DeviceMemory() (peak, reserved int64, err error)
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

// reserved returns what a session holds of its device's memory, in bytes; 0 if it does not tell.
func reserved(s Session) int64 {
	if tells, is := s.(memoryTeller); is {
		if _, bytes, err := tells.DeviceMemory(); err == nil {
			return bytes
		}
	}
	return 0
}
