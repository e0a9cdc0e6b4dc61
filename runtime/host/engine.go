package host

import (
	"context"
	"errors"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// Session is one loaded model in an engine. All data passes through a tensor.Batch, flat memory outside the Go heap, so that
// a session may live in another process.
type Session interface {
	// Signature tells what the model file says of inputs and outputs, each with BatchDim NoBatch: along which dimension rows
	// are joined is for the host to decide.
	Signature() *tensor.Signature
	// Run executes the model once. b.Inputs are complete; Run declares and fills every output with b.Output. It is called from
	// several goroutines at once, each with a batch of its own, and must end in bounded time. An error means that the model
	// failed on these inputs, unless it or one that it wraps says otherwise by a method DeviceLost, Terminated or OutOfMemory
	// that returns true.
	Run(b *tensor.Batch) error
	// Close gives the model's memory back. It is called once, after the last Run has returned.
	Close() error
}

// graphCounter is what a session has besides that can capture CUDA graphs.
type graphCounter interface {
	// Graphs tells how many of its runs were the replay of one.
	Graphs() (replayed, eager uint64)
	// GraphFailures counts what it runs without one although that was to be captured.
	GraphFailures() uint64
}

// Opened is a session and what is known of it beyond the signature.
type Opened struct {
	Session Session
	// Device is the name of the scheduler's device that Run uses.
	Device string
	// Provider is what executes the model, such as cpu, cuda or synth.
	Provider string
	// Notes tell what a reader of the metadata should know, such as a provider that was asked for in vain.
	Notes []string
	// ThreadTime: Run does all its work on the calling thread, so that the thread's CPU time is the use of the device.
	ThreadTime bool
	// Pinner is told of the memory of the batches that Run gets; nil: nobody is.
	Pinner tensor.Pinner
}

// Opener loads a version into an engine, on the device that is named; on another one, which Opened tells, if it cannot be there. The
// error says what was wrong, where, and what to do. It may be called from several goroutines at once.
type Opener func(ctx context.Context, v modelrepo.Version, m *modelrepo.Manifest, device string) (Opened, error)

// Site is a device that may run a model.
type Site struct {
	Device string
	// Rank is 0 for what the model is wanted on most. What has a higher rank is taken only if nothing of a lower one can be.
	Rank int
}

// What an engine's errors may say of themselves. A plain error is about the input.

func deviceLost(err error) bool {
	e, is := errors.AsType[interface {
		error
		DeviceLost() bool
	}](err)
	return is && e.DeviceLost()
}

func terminated(err error) bool {
	e, is := errors.AsType[interface {
		error
		Terminated() bool
	}](err)
	return is && e.Terminated()
}

func outOfMemory(err error) bool {
	e, is := errors.AsType[interface {
		error
		OutOfMemory() bool
	}](err)
	return is && e.OutOfMemory()
}
