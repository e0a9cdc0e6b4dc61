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
	// returnable is how many bytes the heap of a server at rest may take before a collection is worth it: the garbage
	// that is allowed anyway, and a small server's own.
	returnable = leastGarbage + 16<<20
	// restful is how many bytes a server at rest allocates at most in lookAfter: health checks and metrics take less,
	// requests in a row take more.
	restful = 4 << 20
	// lookAfter is how long a server rests, without a collection, before the first look. A look collects the heap and
	// returns its free pages. Each that finds next to nothing doubles the time to the next one, up to lookLast, after
	// which Go collects by itself.
	lookAfter, lookLast = time.Second, 2 * time.Minute
)

// returnPart returns memory that a burst has taken to the system. A server at rest allocates nothing, and so collects
// nothing: it would keep the garbage and the free pages of the burst for minutes.
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

// readHeap reads counters only. It does not stop the world, as runtime.ReadMemStats does.
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

// look decides when the heap is collected to return memory. Only returnPart's goroutine uses it.
type look struct {
	cycles     uint64        // of the latest time
	allocated  uint64        // as well
	rest, wait time.Duration // for how long nothing was collected, and for how long nothing must be
}

// due is called every lookAfter, and reports whether to look now. A collection since the latest call, or more than
// restful bytes of allocations, ends the rest, and the first look is due lookAfter later again.
func (l *look) due(now heapUse) bool {
	if now.cycles != l.cycles || now.allocated > l.allocated+restful {
		l.cycles, l.allocated, l.rest, l.wait = now.cycles, now.allocated, 0, lookAfter
		return false
	}
	l.allocated = now.allocated
	l.rest += lookAfter
	return l.rest >= l.wait && now.bytes > returnable
}

// found notes what a look has achieved. One that returned less than a quarter of returnable doubles the wait.
func (l *look) found(before, after heapUse) {
	l.cycles, l.allocated, l.rest = after.cycles, after.allocated, 0
	if l.wait = min(2*l.wait, lookLast); after.bytes+returnable/4 < before.bytes {
		l.wait = lookAfter
	}
}
