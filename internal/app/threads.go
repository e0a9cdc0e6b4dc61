package app

import (
	"fmt"
	"runtime"

	"github.com/weftserve/weft/internal/threads"
)

// The threads that a server and a worker are expected to need at most. Idle ones take some kB each.
func serverThreads() int { return min(8+2*runtime.GOMAXPROCS(0), 64) }
func workerThreads() int { return min(8+runtime.GOMAXPROCS(0), 32) }

// reserveThreads has those of the server started. The error is that there are not enough for it and for three processes
// of workers: the first one, the one that takes its place, and one where a model is opened by itself.
func reserveThreads() error {
	if err := threads.Reserve(serverThreads(), 3*workerThreads()); err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	return nil
}
