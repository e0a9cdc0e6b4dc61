package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/weftserve/weft/runtime/worker"
)

// leastGarbage is how much garbage there is at least before the heap is collected.
const leastGarbage = 32 << 20

// TuneCollector sets the garbage collector for a server, but for what the environment says.
//
// Go collects the heap when it has doubled. That of a server is small, and would be collected all the time: a fifth of
// the processor time of a request (docs/CONFIGURATION.md has the figures). Where it is large, most of it are tensors,
// which cost a collection nothing, and as much garbage would be allowed as there are tensors. So here there may be as
// much garbage as there is memory that a collection has to look through, and leastGarbage.
//
// Queues may fill the heap: beyond the quarter of the memory that workers leave to the server it is collected as often
// as that takes.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		allowGarbage()
		afterCollection(allowGarbage)
	}
	if quarter := worker.DefaultMemory() / 3; quarter > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(quarter)
	}
}

// allowGarbage sets how much garbage there may be, by what the latest collection found.
func allowGarbage() {
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}
	metrics.Read(found)
	debug.SetGCPercent(percentOf(found[0].Value.Uint64(), found[1].Value.Uint64()))
}

// percentOf returns the percentage by which the live part of the heap may grow if so many bytes of it are scanned.
func percentOf(live, scanned uint64) int {
	const little = 4 << 20 // below which Go does not collect a heap anyway
	percent := 100 * (leastGarbage + float64(scanned)) / float64(max(live, little))
	return int(max(1, min(math.Ceil(percent), math.MaxInt32)))
}

// afterCollection calls f after each collection of the heap from now on.
func afterCollection(f func()) {
	runtime.AddCleanup(new([16]byte), func(struct{}) {
		f()
		afterCollection(f)
	}, struct{}{})
}
