package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Call is one request to one version, and its answer.
type Call struct {
	Version *Version
	// Inputs are in the signature's order, Inputs and then, if some of them were brought, Optional. They have passed
	// Signature.Rows, which gave Rows. Their data, which may be in pieces, belong to the caller and must not change
	// until Predict returned; nothing keeps them after that.
	Inputs []tensor.Tensor
	Rows   int
	// Wanted lists the outputs to return by their place in the signature. Nil: all of them.
	Wanted []int
	// Limit and Target are those of sharedsched.Task.
	Limit    time.Time
	Target   time.Duration
	Priority sharedsched.Priority
	// Caller is who the call is charged to where the model's fairness is by identity; nil: nobody is known, and the
	// version is charged. So it is for a shadow: the operator asked for that, not the caller.
	Caller *Caller
	// Shadow: nobody waits for the answer. It is background work and counted apart from requests.
	Shadow bool
	// Traced: the context of Predict names the call's trace.
	Traced bool
	// Memory is where the data of Results may lie; nil: the garbage collector's.
	Memory tensor.Memory

	// Results answers Wanted, in its order. Set when Predict returned nil. The caller owns the data, to which nothing
	// else refers, so that it may put it into Memory.
	Results []tensor.Tensor
	Outcome sharedsched.Outcome
	// Phases are those of the executions that its rows were in.
	Phases Phases
}

// Alone reports whether the call is executed as it is, by itself: it has no row, or it replaces a default, with which
// nobody knows whether rows meet.
func (c *Call) Alone() bool { return c.Rows == 0 || len(c.Inputs) > len(c.Version.Signature.Inputs) }

// Phases are the parts of an execution's time: inputs are put together, the engine runs, and the answers are taken
// apart.
type Phases struct {
	Input, Run, Output time.Duration

	Process int // of the system, in which the last of them ran; 0: this one
}

// Plus returns the sum of both.
func (p Phases) Plus(q Phases) Phases {
	return Phases{p.Input + q.Input, p.Run + q.Run, p.Output + q.Output, cmp.Or(q.Process, p.Process)}
}

// BatchCount counts the executions of so many rows, without padding.
type BatchCount struct {
	Rows       int
	Executions uint64
	Phases     Phases // of all of them
}

// Clone returns a copy of the call, with all that its tensors hold.
func (c *Call) Clone() *Call {
	own := *c
	own.Memory = nil
	own.Wanted = slices.Clone(c.Wanted)
	own.Inputs, own.Results = slices.Clone(c.Inputs), slices.Clone(c.Results)
	for _, tensors := range [][]tensor.Tensor{own.Inputs, own.Results} {
		for i := range tensors {
			tensors[i] = tensors[i].Clone()
		}
	}
	return &own
}

// ErrNotReady says that the version stopped being Ready between routing and submission.
var ErrNotReady = errors.New("the model version is not ready")

// ErrDeviceLost says that the device that holds the version failed; nothing is run on it until it is back.
var ErrDeviceLost = errors.New("the device that holds the model is lost")

// ErrUntried says that nobody knows whether a request crashes the model. The error that wraps it has the cause.
var ErrUntried = errors.New("the run of this request, and of any others in its batch, ended the engine's process or " +
	"hung, and there is no other process in which the request can be run by itself")

// ErrNotOpen says that the version could not be opened again in the next process of its engine, which is tried again,
// or that the machine lacks what a run takes, whatever the request.
var ErrNotOpen = errors.New("the model cannot be run at present, try again later")

// ModelError is a failure of the model itself on this request's input.
type ModelError struct {
	Model   string
	Version int64
	// Mates is how many requests of the same batch were answered: where there were any, the input is to blame.
	Mates int
	// Crashed: the run ended the engine's process, or did not end in time. It was this input, by itself.
	Crashed bool
	// Exceeded is how many bytes of memory the process may have, if the run ended because it took more; 0: it did not.
	Exceeded int64
	// Signal is the one that the engine's process died of, such as SIGFPE; "": it is not known, or there was none.
	Signal string
	Err    error
}

func (e *ModelError) Error() string {
	const less = "send an input for which the model needs less: fewer or smaller rows, or other values"
	if e.Exceeded > 0 {
		return fmt.Sprintf("model %q version %d: this input takes more memory than there is for it, also when it runs by "+
			"itself: %v; "+less+", or raise that", e.Model, e.Version, e.Err)
	}
	if e.OutOfMemory() {
		return fmt.Sprintf("model %q version %d: there is not enough memory for this input: %v; "+less, e.Model, e.Version,
			e.Err)
	}
	if e.Crashed {
		return fmt.Sprintf("model %q version %d: this input crashes the model, or keeps it from ending, also when it runs "+
			"by itself: %v; do not send it again", e.Model, e.Version, e.Err)
	}
	return fmt.Sprintf("model %q version %d failed on this input: %v", e.Model, e.Version, e.Err)
}

// OutOfMemory reports whether this input takes more memory than there is for it.
func (e *ModelError) OutOfMemory() bool {
	full, is := errors.AsType[interface {
		error
		RanOutOfMemory() bool
	}](e.Err)
	return e.Exceeded > 0 || is && full.RanOutOfMemory()
}

func (e *ModelError) Unwrap() error { return e.Err }

// Caller is who a request is charged to where its model's fairness is by identity; nil: nobody is known, the anonymous
// identity.
type Caller struct {
	// Name identifies the caller, and its flow on each device. It is shown to operators, and to the caller itself.
	Name string
	// Weight is the caller's part of a device in relation to the weights of other flows while that is contended: 0.001
	// to 1,000,000; zero: 1. Requests with another weight are refused with an error.
	Weight float64
}
