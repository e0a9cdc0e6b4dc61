package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
)

const (
	// returnable is how many bytes the heap of a server that rests may take without a look whether they are in use.
	returnable = leastGarbage + 16<<20
	// restful is how many bytes a server that rests allocates at most in lookAfter.
	restful = 4 << 20
	// lookAfter is how long a server rests, in which it collects nothing, before the first look. Each that finds next to
	// nothing doubles the time to the next one, up to the two minutes after which Go looks by itself.
	lookAfter, lookLast = time.Second, 2 * time.Minute
)

// returnPart gives memory back to the system that a burst has taken: a server that rests collects nothing, and would
// keep the garbage and the free pages of the burst for minutes.
func returnPart() lifecycle.Part {
	return untilStopped("return of memory", func(ctx context.Context) error {
		tick := time.NewTicker(lookAfter)
		defer tick.Stop()
		var l look
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if now := readHeap(); l.due(now) {
				runtime.GC() // pools keep what they have for one collection
				debug.FreeOSMemory()
				l.found(now, readHeap())
			}
		}
	})
}

// heapUse is how often the heap was collected, how many bytes of it the system has not got back, and how many were
// allocated, ever.
type heapUse struct{ cycles, bytes, allocated uint64 }

func readHeap() heapUse {
	found := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(found)
	of := func(i int) uint64 { return found[i].Value.Uint64() }
	return heapUse{of(0), of(1) + of(2) + of(3), of(4)}
}

// look says when the heap is to be looked at.
type look struct {
	cycles     uint64        // of the latest time
	allocated  uint64        // as well
	rest, wait time.Duration // for how long nothing was collected, and for how long nothing must be
}

// due is to be called every lookAfter. It reports whether to look now.
func (l *look) due(now heapUse) bool {
	if now.cycles != l.cycles || now.allocated > l.allocated+restful {
		l.cycles, l.allocated, l.rest, l.wait = now.cycles, now.allocated, 0, lookAfter
		return false
	}
	l.allocated = now.allocated
	l.rest += lookAfter
	return l.rest >= l.wait && now.bytes > returnable
}

// found notes how the heap was before and after a look.
func (l *look) found(before, after heapUse) {
	l.cycles, l.allocated, l.rest = after.cycles, after.allocated, 0
	if l.wait = min(2*l.wait, lookLast); after.bytes+returnable/4 < before.bytes {
		l.wait = lookAfter
	}
}
