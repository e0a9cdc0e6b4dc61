package threads

import (
	"context"
	"time"
)

const (
	// every is how often scarce is called. As often threads that were started meanwhile are made to yield, too.
	every = 250 * time.Millisecond
	// lasting is how long threads yield after executions were seen to wait. While they yield, executions wait less, so
	// that scarce alone would end it too soon.
	lasting = time.Second
)

// StopYielding undoes what this process inherits from a parent that yields. Call it first in worker processes.
func StopYielding() { yield(false) }

// YieldWhile keeps this process from interrupting executions that wait for a processor, while scarce says that some do,
// until ctx ends.
//
// Linux lets a thread that wakes up take the processor from one that works, up to thousands of times a second where
// requests come one by one. The more requests come, the less is left of the processor for executions, and the longer
// they take: in overload most of all. While executions wait, the threads of this process give up that right
// (SCHED_BATCH, see sched(7)): they get the processor when a time slice ends, after milliseconds, and then see to all
// requests that have come.
func YieldWhile(ctx context.Context, scarce func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	defer yield(false)
	var until time.Time
	for was := false; ; {
		now := time.Now()
		if scarce() {
			until = now.Add(lasting)
		}
		is := now.Before(until)
		if is || was { // once more at the end: a thread may have been started meanwhile
			yield(is)
		}
		was = is
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
