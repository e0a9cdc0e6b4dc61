package app

import (
	"os"
	"runtime/debug"

	"github.com/weftserve/weft/runtime/worker"
)

// collectAfter is by how many percent the heap of a server grows until it is collected. It is small, and Go's 100 have
// it collected all the time: a sixth of the processor time of a request (docs/CONFIGURATION.md has the figures).
const collectAfter = 400

// TuneCollector sets the garbage collector for a server, but for what the environment says. Queues may fill the heap:
// beyond the quarter of the memory that workers leave to the server it is collected as often as that takes.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAfter)
	}
	if bound := worker.DefaultMemory() / 3; bound > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bound)
	}
}
