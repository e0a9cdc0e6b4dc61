// Package worker runs an engine in a process of its own, so that a model that crashes, hangs or eats memory ends that
// process and not the server.
//
// A Worker supervises one process: it starts it, opens sessions in it, and starts another, with the same sessions, when
// it dies. A session is an engine.Session whose runs happen there. The process is this program with other arguments;
// Serve is its main function. It knows no request, no scheduler and no caller.
//
// Control messages (message.go) travel on a socket pair. Batches lie in shared memory (slab.go), which the server
// assembles into and scatters from without a further copy. One run at a time uses a lane (lane.go): a page of shared
// memory that says which tensors lie where, and a bell (bell.go) for each direction. Either process may die at any
// byte: the server checks every answer, and a dead process wakes every lane.
package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// Config holds the settings of a Pool.
type Config struct {
	// Command is the argument that makes this program call Serve. The path of the engine's library follows.
	Command string
	// Library returns that path. The error says how to help.
	Library func() (path string, err error)
	// Sandbox says what processes may do, besides reading the library's folder; nil: whatever the server may.
	Sandbox *sandbox.Policy
	// Memory is how many bytes of its own a process may take; one that takes more is ended. 0: any number.
	Memory int64
	// Changed is called in a goroutine of its own when the process of a worker has died, when the next one has taken its
	// place, when a session is open there, and when that process works where others died again and again. Nil: nobody
	// wants to know.
	Changed func()
	// Clock is that of this process. Nil: the system's.
	Clock *owntime.Clock
	Log   *slog.Logger

	// How long a process may take to read a message, and to close a session; 0: deafPatience and closePatience.
	deaf, closing time.Duration
}

// Place says in which worker a model is opened, and for whom.
type Place struct {
	Device string
	// Version is the name of the version, such as walker/3, for people.
	Version string
	// Alone: the worker is the version's own on the device, and goes with its last session; else it is the device's.
	Alone bool
}

// Engine opens the models that a worker is asked for.
type Engine interface {
	// Load loads the engine's library. It is called once, before anything else.
	Load() error
	// Open opens a model, which is the value that the server gave to Pool.Open, with the file, which it owns and which
	// is nil if the server gave none. It is called from several goroutines.
	Open(ctx context.Context, model json.RawMessage, file *os.File, log *slog.Logger) (engine.Opened, error)
}

// Death is how a process of a worker ended.
type Death struct {
	Worker string
	Signal string // such as SIGSEGV; "": it ended by itself
}
