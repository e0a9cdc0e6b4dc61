package loadgen

import (
	"errors"
	"os"
)

// stopwatch reads processor times at the begin and the end of what is counted.
type stopwatch struct {
	before, after reading
	err           error
}

type reading struct {
	requests       int64
	server, client used
}

func (s *stopwatch) read(pid int, into *reading, requests int64) {
	if pid == 0 {
		return
	}
	into.requests = requests
	server, err := usedBy(pid)
	client, own := usedBy(os.Getpid())
	into.server, into.client, s.err = server, client, errors.Join(s.err, err, own)
}

func (s *stopwatch) report() *CPUReport {
	requests := s.after.requests - s.before.requests
	per := func(after, before cpu) CPUTime {
		took, n := after.minus(before), float64(max(requests, 1))
		return CPUTime{float64(took.user.Microseconds()) / n, float64(took.system.Microseconds()) / n}
	}
	return &CPUReport{
		Requests: requests,
		Server:   per(s.after.server.process, s.before.server.process),
		Children: per(s.after.server.children, s.before.server.children),
		Client:   per(s.after.client.process, s.before.client.process),
	}
}
