package loadgen

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpu is processor time that was used.
type cpu struct{ user, system time.Duration }

func (c cpu) plus(o cpu) cpu  { return cpu{c.user + o.user, c.system + o.system} }
func (c cpu) minus(o cpu) cpu { return cpu{c.user - o.user, c.system - o.system} }

// used is the processor time of a process and of all that it started.
type used struct{ process, children cpu }

// tick is the unit of /proc/PID/stat.
const tick = 10 * time.Millisecond

// usedBy reads the processor time of a process from /proc. Children that have ended count, too.
func usedBy(pid int) (used, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(names) == 0 {
		return used{}, fmt.Errorf("--server-pid: there is no /proc here, expected that of Linux; leave the flag out")
	}
	parents := map[int]int{}
	own := map[int]cpu{}
	var u used
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		of, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		_, rest, _ := strings.Cut(string(text), ") ") // behind the name of the program
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		ticks := func(field int) time.Duration {
			n, _ := strconv.ParseInt(fields[field], 10, 64)
			return time.Duration(n) * tick
		}
		parents[of], _ = strconv.Atoi(fields[1])
		own[of] = cpu{ticks(11), ticks(12)}
		if of == pid {
			u.process, u.children = own[of], cpu{ticks(13), ticks(14)} // the children that were waited for
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

func descends(pid, from int, parents map[int]int) bool {
	for range len(parents) { // a number may have been given anew while they were read: there may be a circle
		if pid = parents[pid]; pid == from {
			return true
		}
	}
	return false
}
