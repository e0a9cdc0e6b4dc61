package proof

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Runner runs made-up requests where live ones run, each as an execution of its own, and waits for the device as long
// as that takes.
type Runner interface {
	// Run runs a request. The error is a *catalog.ModelError where the model failed on it, of the kind
	// engine.OutOfMemory where memory does not suffice; any other ends the proof. The cost is also reported for a
	// failed request.
	Run(context.Context, Request) (Answer, error)
	// Memory returns the version's present part of its device's memory.
	Memory() engine.Memory
}

// Request is one made-up request.
type Request struct {
	Inputs []tensor.Tensor
	Rows   int
	// Unmeasured keeps its time out of the expected time of later requests.
	Unmeasured bool
	// AsItCame runs it like requests that share no execution: without padding, and by a plan of their own.
	AsItCame bool
}

// Answer is the outcome of a request.
type Answer struct {
	Outputs []tensor.Tensor // all of them
	Cost    time.Duration   // device time
	Halved  bool            // it was run in several parts, for lack of memory
}
