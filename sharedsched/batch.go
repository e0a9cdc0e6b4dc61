package sharedsched

import "strconv"

// Batch is one execution: consecutive rows of one or more tasks with equal key.
type Batch struct {
	Version VersionID
	Device  string
	Spans   []Span
	Rows    int // the sum over the spans
	Padded  int // rows to execute: Rows, or the next allowed batch size
	Alone   bool
	Reason  FlushReason
}

// Span is a range of one task's rows.
type Span struct {
	Payload     any // the task's
	First, Rows int
	Err         error // set by the Executor: why this span has no answer
	Again       bool  // set with Err: the submitter submits the task once more
	task        Handle
}

// Task names the task whose rows the span holds. A program that drives Core itself finds its own record of the task
// with it.
func (s *Span) Task() Handle { return s.task }

// FlushReason says why a batch was formed when it was.
type FlushReason uint8

// The flush reasons.
const (
	// FlushUnspecified: none, of a batch that was not formed.
	FlushUnspecified FlushReason = iota
	// FlushBudgetReached: one more row would have cost more device time than MaxBatchCost or the device cap allow.
	FlushBudgetReached
	// FlushTimeout: the oldest task had waited BatchTimeout.
	FlushTimeout
	// FlushSingleRequestOverBudget: a lone row costs more than the budget and runs alone.
	FlushSingleRequestOverBudget
	// FlushFull: MaxBatchSize rows, or as many as memory suffices for.
	FlushFull
	// FlushDeviceIdle: the device was free: nothing is gained by waiting.
	FlushDeviceIdle
	// FlushDeadline: waiting longer would miss a limit or a target that was named.
	FlushDeadline
	// FlushDrain: the version or the server is draining.
	FlushDrain
	// FlushUnbatched: the version or the task runs requests one by one.
	FlushUnbatched
)

var flushReasons = [...]string{
	FlushUnspecified: "unspecified", FlushBudgetReached: "budget_reached", FlushTimeout: "timeout",
	FlushSingleRequestOverBudget: "single_request_over_budget", FlushFull: "full", FlushDeviceIdle: "device_idle",
	FlushDeadline: "deadline", FlushDrain: "drain", FlushUnbatched: "unbatched",
}

// String returns the reason as metrics and logs spell it, such as "budget_reached".
func (r FlushReason) String() string {
	if int(r) < len(flushReasons) {
		return flushReasons[r]
	}
	return "flush_reason(" + strconv.Itoa(int(r)) + ")"
}
