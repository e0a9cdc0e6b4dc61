package audit

import "github.com/weftserve/weft/runtime/tensor"

// Result is the outcome of the audit of a request whose rows shared an execution with others or with padding, or were
// split over several.
type Result string

// The results.
const (
	Equal Result = "equal" // a row of it gives alone the answer that its caller got
	// Rounding: nearly, and the same as in a batch of copies of itself: its mates have no part in it.
	Rounding Result = "rounding"
	// Different: the batch gave the row another answer than it gives alone.
	Different        Result = "different"
	Nondeterministic Result = "nondeterministic" // it gives something else each time that it is run alone
	Failed           Result = "failed"           // it could not be run alone
	Busy             Result = "skipped_busy"     // the device was not idle for long enough in time
	Budget           Result = "skipped_budget"   // not chosen: the share does not suffice for all
	Size             Result = "skipped_size"     // chosen, but too large to be kept
)

// Comparison is a row of a live batch as it was answered, and its result alone. Its tensors must not be kept.
type Comparison struct {
	Model          string
	Version        int64
	Outputs        []*tensor.Spec // those that were asked for
	InBatch, Alone []tensor.Tensor
}

// Event reports the outcome of some requests. All requests of which there was something to audit are reported sooner or
// later, except those that are answered when the audits of their version have ended: it is out of batching, or all its
// outputs are random.
type Event struct {
	Model   string
	Version int64
	Result  Result
	Count   int
}
