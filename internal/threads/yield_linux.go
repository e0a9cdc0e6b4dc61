package threads

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// yield changes the policy of all threads of this process. Failures are ignored: the program is slower then, and no
// more.
func yield(yields bool) {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if yields {
		attr.Policy = unix.SCHED_BATCH
	}
	threads, _ := os.ReadDir("/proc/self/task") // the names of the ones that were read
	for _, of := range threads {
		if id, err := strconv.Atoi(of.Name()); err == nil {
			attr.Nice = niceOf(id)
			_ = unix.SchedSetAttr(id, &attr, 0) // it may have ended
		}
	}
}

// niceOf returns the niceness of a thread: setting the policy sets the niceness with it.
func niceOf(id int) int32 {
	if now, err := unix.SchedGetAttr(id, 0); err == nil {
		return now.Nice
	}
	return 0
}
