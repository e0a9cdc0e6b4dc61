package threads

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// policies counts the threads of this process by their policy.
func policies(t *testing.T) map[uint32]int {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	count := map[uint32]int{}
	for _, of := range threads {
		id, err := strconv.Atoi(of.Name())
		if err != nil {
			t.Fatal(err)
		}
		if attr, err := unix.SchedGetAttr(id, 0); err == nil { // else it has ended
			count[attr.Policy]++
		}
	}
	return count
}

func TestYieldWhileExecutionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var scarce atomic.Bool
		go YieldWhile(ctx, scarce.Load)
		expect := func(what string, policy uint32) {
			t.Helper()
			synctest.Wait()
			if got := policies(t); len(got) != 1 || got[policy] == 0 {
				t.Errorf("%s: threads by policy %v, want all of %d", what, got, policy)
			}
		}
		time.Sleep(every)
		expect("nothing waits", unix.SCHED_NORMAL)
		scarce.Store(true)
		time.Sleep(every)
		expect("executions wait", unix.SCHED_BATCH)
		scarce.Store(false)
		time.Sleep(lasting / 2)
		expect("half a second later", unix.SCHED_BATCH)
		time.Sleep(lasting)
		expect("a second and a half later", unix.SCHED_NORMAL)
		scarce.Store(true)
		time.Sleep(every)
		expect("they wait again", unix.SCHED_BATCH)
		cancel()
		expect("the end", unix.SCHED_NORMAL)
	})
}
