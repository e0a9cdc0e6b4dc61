package rollout

import "time"

// Answered is the code of requests that were answered.
const Answered = "OK"

// Ending is how one request ended.
type Ending struct {
	// Code is the name of its gRPC code.
	Code string
	// Fault: of the model. Overload: there was not the capacity to answer it, or to answer it in time.
	Fault, Overload bool
	// Compute is how long the model took for the answer. It is not looked at where there was none.
	Compute time.Duration
}
