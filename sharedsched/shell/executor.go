package shell

import (
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/cost"
)

// Executor runs batches on a device. The scheduler calls Execute from one batch thread per lane, never with a lock
// held.
type Executor interface {
	// Execute runs the batch once and blocks until it is done. It must set Err of each span that has no answer, and
	// have delivered the rows of the others, before it returns. The batch is valid until then. Execute must end in
	// bounded time: the lane is lost until it does.
	Execute(b *sharedsched.Batch) sharedsched.Report
}

// Telemetry reports the state of devices, so that estimates follow a change before many executions have shown it. Batch
// threads ask after each execution and when they are woken for work, never with a lock held.
type Telemetry interface {
	// Sample returns the latest sample of the named device, and a number that grows whenever the sample changes; 0
	// while there has been none. It must not block. One that has become too old must give way to one that is Expired.
	Sample(device string) (cost.Sample, uint64)
}

// Observer is notified of executions, for metrics. It is not notified of tasks: Do returns the outcome of a task to its
// caller, and only the caller knows whether the task was a request, and whether it is tried elsewhere.
type Observer interface {
	// BatchDone follows every execution, before the callers of the batch are answered. It is called from any goroutine,
	// never with a lock held, and must not block.
	BatchDone(sharedsched.BatchEvent)
}
