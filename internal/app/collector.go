package app

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/weftserve/weft/runtime/worker"
)

// ballast is memory that is never written to, so that none is resident. Go collects the heap when it has doubled; that
// of a server is small, and would be collected all the time: a fifth of the processor time of a request
// (docs/CONFIGURATION.md has the figures). With the ballast there is about as much garbage before that, while a heap of
// many large messages does not grow beyond its double. The idea is Twitch's
// (https://blog.twitch.tv/en/2019/04/10/go-memory-ballast-how-i-learnt-to-stop-worrying-and-love-the-heap/).
var ballast []byte

const ballastBytes = 32 << 20

// TuneCollector sets the garbage collector for a server, but for what the environment says. Queues may fill the heap:
// beyond the quarter of the memory that workers leave to the server it is collected as often as that takes.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
	}
	bound := debug.SetMemoryLimit(-1)
	if quarter := worker.DefaultMemory() / 3; quarter > 0 && os.Getenv("GOMEMLIMIT") == "" {
		bound = quarter
	}
	if bound < math.MaxInt64-ballastBytes {
		debug.SetMemoryLimit(bound + int64(len(ballast))) // which counts as if it were resident
	}
}
