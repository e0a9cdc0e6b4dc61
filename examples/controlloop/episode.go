package main

import (
	"strconv"
	"time"
)

// episode is the record of one episode.
type episode struct {
	name     string
	wish     version
	seed     uint64
	sum      float64 // of the rewards
	finished bool    // else it was cut short by the user, and its return says nothing

	calls     [failed + 1]int // by outcome
	behind    int             // periods that this program began more than a period too late
	latencies []time.Duration // of answered calls
	rows      int64           // sum over answered calls

	served   int64 // the version that answered
	mixed    bool  // several versions answered
	firstErr error // of a call that failed
}

func (e *episode) record(a answer) {
	e.calls[a.outcome]++
	switch a.outcome {
	case answered:
		e.latencies = append(e.latencies, a.latency)
		e.rows += int64(a.rows)
		e.mixed = e.mixed || e.served != 0 && e.served != a.version
		e.served = a.version
	case failed, refused:
		if e.firstErr == nil {
			e.firstErr = a.err
		}
	case late: // counted; nothing more is known of it
	}
}

// versionName is the row of the report that the episode belongs to.
func (e *episode) versionName() string {
	switch {
	case e.mixed:
		return "mixed"
	case e.served != 0:
		return strconv.FormatInt(e.served, 10)
	case e.wish != "":
		return string(e.wish)
	}
	return "none"
}
