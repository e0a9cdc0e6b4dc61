// Package courtesy keeps the serving process from interrupting executions that wait for a processor.
//
// Linux lets a thread that wakes up take the processor from one that works, up to thousands of times a second where
// requests come one by one. The more requests come, the less is left of the processor for executions, and the longer
// they take: in overload most of all. While executions wait, the threads of this process give up that right
// (SCHED_BATCH, see sched(7)): they get the processor when a time slice ends, after milliseconds, and then see to all
// requests that have come. Workers are not meant, and begin with End.
package courtesy

import (
	"context"
	"time"
)

const (
	// every is how often that is looked at. Threads that were started meanwhile are found then, too.
	every = 100 * time.Millisecond
	// lasting is how long courtesy lasts after executions were seen to wait: where it helps, they wait less.
	lasting = time.Second
)

// End ends the courtesy that this process has from the one that started it.
func End() { set(false) }

// Keep keeps the process courteous while processors are scarce, so that executions wait, until ctx ends.
func Keep(ctx context.Context, scarce func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer set(false)
	var until time.Time
	for was := false; ; {
		now := time.Now()
		if scarce() {
			until = now.Add(lasting)
		}
		is := now.Before(until)
		if is || was { // once more at the end: a thread may have been started meanwhile
			set(is)
		}
		was = is
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
