package loadgen

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// cpu is used processor time, in user mode and in the kernel.
type cpu struct{ user, system time.Duration }

func (c cpu) plus(o cpu) cpu  { return cpu{c.user + o.user, c.system + o.system} }
func (c cpu) minus(o cpu) cpu { return cpu{c.user - o.user, c.system - o.system} }

// used is the processor time of a process and of all that it started.
type used struct{ process, children cpu }

// tick is the unit of times in /proc/PID/stat: Linux has shown hundredths of a second to programs for decades, whatever
// it counts by itself.
const tick = 10 * time.Millisecond

// usedBy reads the processor time of a process from /proc, and separately that of all processes that it started,
// directly or not. Children that have ended and were waited for are counted by their parent. It reads one process after
// another, so that the sum is not of one moment.
func usedBy(pid int) (used, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return used{}, errors.New("--server-pid: there is no /proc here, expected that of Linux; leave the flag out")
	}
	parents := map[int]int{}
	own := map[int]cpu{}
	var u used
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		parents[p.PID], own[p.PID] = stat.PPID, cpu{tick * time.Duration(stat.UTime), tick * time.Duration(stat.STime)}
		if p.PID == pid { // with the children that were waited for
			u = used{own[pid], cpu{tick * time.Duration(stat.CUTime), tick * time.Duration(stat.CSTime)}}
		}
	}
	if _, there := own[pid]; !there {
		return used{}, fmt.Errorf("--server-pid %d: there is no such process; name that of a running server", pid)
	}
	for of := range own {
		if of != pid && descends(of, pid, parents) {
			u.children = u.children.plus(own[of])
		}
	}
	return u, nil
}

// descends reports whether a process was started by another one, or by what that started.
func descends(pid, from int, parents map[int]int) bool {
	for range len(parents) { // a number may have been given anew while they were read: there may be a circle
		if pid = parents[pid]; pid == from {
			return true
		}
	}
	return false
}

// stopwatch reads processor times at the beginning and the end of what is counted, together with the number of requests
// that had ended. The first error is kept, since the reads happen within the run.
type stopwatch struct {
	before, after reading
	err           error
}

// reading is what was read at one moment: how many requests had ended, and the processor times of both ends.
type reading struct {
	requests       int64
	server, client used
}

// read reads the server and this program. It does nothing if no server was named.
func (s *stopwatch) read(pid int, into *reading, requests int64) {
	if pid == 0 {
		return
	}
	into.requests = requests
	server, err := usedBy(pid)
	client, own := usedBy(os.Getpid())
	into.server, into.client, s.err = server, client, errors.Join(s.err, err, own)
}

// report divides the time between the two reads by the requests that ended in it. The requests in flight at both ends
// blur that a little, in a long run by nothing.
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
