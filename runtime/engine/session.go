// Package engine is the contract between engines, which execute models, and their callers.
//
// An engine opens a model and hands over a Session. It gets batches in flat memory outside the Go heap, which an
// allocator of its own may have given, and answers there. It knows no request, no caller, no scheduler and no
// repository, so that it may live in another process.
package engine

import (
	"context"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/tensor"
)

// Session is one loaded model in an engine. All data passes through a tensor.Batch.
type Session interface {
	// Signature describes the inputs and outputs as the model file does, each with BatchDim NoBatch: along which
	// dimension rows are joined is for the caller to decide. It is not to be changed.
	Signature() *tensor.Signature
	// Run executes the model once. b.Inputs are complete; Run declares and fills every output with b.Output, and sets
	// b.DeviceTime, whether it succeeds or not, if it knows that better than a caller who measures elapsed time. It is
	// called from several goroutines at once, each with a batch of its own, and must end in bounded time. When ctx
	// ends, an engine that can stop a run does so soon, and the error is of the kind Terminated; one that cannot
	// finishes the run. A run that takes longer than b.Patience is stopped in the same way, and the error is of the kind
	// Crashed. Outputs that exceed b.Most are not copied: b.Output panics, or Run returns an error of the kind
	// AnswerTooLarge. KindOf classifies an error.
	Run(ctx context.Context, b *tensor.Batch) error
	// Stats returns the session's counters. It never waits, neither for a run nor for a device. It is called with none
	// of the caller's locks held, and never after Close has begun. A Meter sees to both.
	Stats() Stats
	// Close gives the model's memory back. It is called once, after the last Run and the last Stats have returned.
	Close() error
}

// Try is called with a model that was opened in a process where nothing else runs, before it is opened where others do:
// whatever its runs do there harms nobody. Session and Memory of the Opened are set, and may be used until Try returns.
// An error ends the opening.
type Try func(context.Context, Opened) error

// Opened is a session and the known facts about it beyond the signature.
type Opened struct {
	Session Session
	// Device is the name of the scheduler's device that Run uses.
	Device string
	// Provider is the execution provider, such as cpu, cuda or synth.
	Provider string
	// Notes are remarks for readers of the metadata, such as on a provider that was asked for and is not there.
	Notes []string
	// Foreign says that the engine knows operators that Weft does not. It may run one in the place of a function of the
	// model that has its name.
	Foreign bool
	// Quarantine runs each batch in a process where nothing else runs at that time: an error of the kind Crashed is then
	// that batch's fault. A run may wait for others, as Waited of its batch says. It has the signature of Session, its
	// own runs and statistics, and is not closed. Nil: the engine has no process of its own.
	Quarantine Session
	// Interrupt has the session's runs stopped as if their patience were over, but for those in Quarantine. Nil: they
	// cannot be.
	Interrupt func()
	// Clock returns the clock by which runs that begin now are judged. Nil: the system's.
	Clock func() *owntime.Clock
	// Memory gives the memory of the batches that Run gets. Nil: any outside the Go heap will do.
	Memory tensor.Allocator
	// Pin prepares memory of batches that the engine did not give, so that its device reads and writes it faster, until
	// unpin is called, after the last run with it. Nil: nothing is to be prepared.
	Pin func(memory []byte) (unpin func())
}
