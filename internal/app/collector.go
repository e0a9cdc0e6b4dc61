package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/worker"
)

// leastGarbage is how many bytes of garbage there may be in any case before the heap is collected.
// docs/bench/processors.md has what less costs.
const leastGarbage = 32 << 20

// tuned says that the collector is set anew after each collection. Tests clear it, which ends that.
var tuned atomic.Bool

// TuneCollector sets the garbage collector for a server. GOGC and GOMEMLIMIT, where the environment has them, win.
//
// Go collects the heap when it has doubled. That of a server is small, and would be collected all the time: a fifth
// of the processor time of a request (docs/bench/processors.md has the figures). Where it is large, most of it are
// tensors, which cost a collection nothing, and as much garbage would be allowed as there are tensors. So here
// there may be as much garbage as there is memory that a collection has to look through, and leastGarbage.
//
// Queues may fill the heap. Beyond the quarter of the memory that workers leave to the server the heap is collected as
// often as it takes to stay below.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		tuned.Store(true)
		allowGarbage()
		afterCollection(allowGarbage)
	}
	if quarter := worker.DefaultMemory() / 3; quarter > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(quarter)
	}
}

// allowGarbage sets how much garbage there may be, by what the latest collection found. It reads four counters, which
// takes microseconds.
func allowGarbage() {
	found := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/heap:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(found)
	of := func(i int) uint64 { return found[i].Value.Uint64() }
	debug.SetGCPercent(percentOf(of(0), of(1), of(2)+of(3)))
}

// percentOf returns the percentage for debug.SetGCPercent. live are the bytes that the latest collection found alive,
// scanned are those of the heap that a collection looks through, and roots are the bytes of stacks and globals. scanned
// is of now, and counts what was allocated since: hence the bound by live.
func percentOf(live, scanned, roots uint64) int {
	// Go lets no heap be collected below this size.
	const least = 4 << 20 // of the heap, at 100 percent
	// Go collects the heap when there are percent/100 × (live + roots) bytes of garbage. This is solved for percent.
	look := float64(min(scanned, live) + roots)
	percent := 100 * (leastGarbage + look) / float64(max(live, least)+roots)
	return int(max(1, min(math.Ceil(percent), math.MaxInt32)))
}

// afterCollection calls f soon after each collection of the heap, while tuned is set. The cleanup of an object that
// nobody refers to runs after the next collection, on a goroutine of Go's runtime, and f registers another. A
// collection that ends before f was called for the one before may be left out.
func afterCollection(f func()) {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		if tuned.Load() {
			f()
			afterCollection(f)
		}
	}, struct{}{})
}
