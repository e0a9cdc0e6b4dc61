package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// Executor runs batches on a device. The scheduler calls Execute from one batch thread per lane, never with a lock
// held.
type Executor interface {
	// Execute runs the batch once and blocks until it is done. It must set Err of each span that has no answer, and
	// have delivered the rows of the others, before it returns. The batch is valid until then. Execute must end in
	// bounded time: the lane is lost until it does.
	Execute(b *Batch) Report
}

// Report tells what an execution cost.
type Report struct {
	// DeviceTime is the measured use of the device, or 0 where only the elapsed time is known; the scheduler then
	// divides the time that several batches overlap equally among them.
	DeviceTime time.Duration
	// Unusable keeps the execution out of the cost model: it failed, or did other work than its size says.
	Unusable bool
	// Failure says why the execution failed as a whole; a span without an answer is a failure, too. Reruns counts the
	// runs of parts of it that followed.
	Failure Failure `json:",omitempty"`
	Reruns  int     `json:",omitempty"`
	// OutOfMemory tells that memory did not suffice for the execution as a whole: for a while the next ones have at
	// most half of its size. It teaches no costs, either.
	OutOfMemory bool `json:",omitempty"`
}

// Telemetry tells in what state devices are, so that estimates follow before many executions have shown it. Batch
// threads ask after each execution and when they are woken for work, never with a lock held.
type Telemetry interface {
	// Sample returns the latest sample of the named device, and a number that grows whenever the sample changes; 0
	// while there has been none. It must not block. One that has become too old must give way to one that is Expired.
	Sample(device string) (cost.Sample, uint64)
}

// Observer hears of executions, for metrics. What becomes of a task its caller hears from Do, and only that one knows
// what it means: whether it was a request, and whether it is tried elsewhere.
type Observer interface {
	// BatchDone follows every execution, before the callers of the batch are answered. It is called from any goroutine,
	// never with a lock held, and must not block.
	BatchDone(BatchEvent)
}

// BatchEvent describes one execution.
type BatchEvent struct {
	Version             VersionID
	Device              string
	Tasks, Rows, Padded int
	Reason              FlushReason
	Estimated           time.Duration // what the cost model predicted; 0 if it had never measured it
	Elapsed, DeviceTime time.Duration
	Failed              bool // as a whole, or on some of its tasks
}
