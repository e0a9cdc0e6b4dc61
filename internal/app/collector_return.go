package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
)

const (
	// returnable is by how much, in bytes, the heap of a server that rests may have grown since memory was returned.
	returnable = leastGarbage + 16<<20
	// restsAfter is how long a server rests that has collected nothing meanwhile.
	restsAfter = 2 * time.Second
)

// returnPart gives memory back to the system that a burst has taken: a server that rests collects nothing, and would
// keep the garbage and the free pages of the burst for minutes.
func returnPart() lifecycle.Part {
	return untilStopped("return of memory", func(ctx context.Context) error {
		tick := time.NewTicker(restsAfter)
		defer tick.Stop()
		var before, least heapUse
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			now := readHeap()
			if now.rests(before, least) {
				debug.FreeOSMemory()
				now = readHeap()
				least = now
			}
			least.bytes = min(least.bytes, now.bytes)
			before = now
		}
	})
}

// heapUse is how often the heap was collected, and how many bytes of it the system has not got back.
type heapUse struct{ cycles, bytes uint64 }

func readHeap() heapUse {
	found := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(found)
	of := func(i int) uint64 { return found[i].Value.Uint64() }
	return heapUse{of(0), of(1) + of(2) + of(3)}
}

// rests reports whether nothing was collected since before, and the heap has grown by much since it was least. How much
// of that is in use, only a collection would show.
func (h heapUse) rests(before, least heapUse) bool {
	return h.cycles == before.cycles && h.bytes > least.bytes+returnable
}
