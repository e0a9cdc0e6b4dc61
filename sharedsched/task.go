package sharedsched

import (
	"strconv"
	"time"
)

// Time is a point on the scheduler's own clock: nanoseconds since it began. Core never reads a clock; every event brings its
// Time, so that a recorded trace replays bit for bit.
type Time int64

// Never is later than every event.
const Never Time = 1<<63 - 1

// Add returns t shifted by d, which must not be negative; Never where that is beyond all time.
func (t Time) Add(d time.Duration) Time {
	if Time(d) > Never-t {
		return Never
	}
	return t + Time(d)
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Priority orders tasks inside a queue and decides who gives way. The zero value is Critical. The names follow Google's
// criticality classes (Site Reliability Engineering, chapter 21).
type Priority uint8

// The priorities. CriticalPlus goes before Critical before SheddablePlus; all three are foreground work. Sheddable is
// background: it fills what would be padding, and time that no foreground task wants.
const (
	Critical Priority = iota
	CriticalPlus
	Sheddable
	SheddablePlus
)

// ranks maps a priority to its place in a queue, the most urgent first.
var ranks = [...]uint8{Critical: 1, CriticalPlus: 0, Sheddable: backgroundRank, SheddablePlus: 2}

const backgroundRank = 3

// Task is the work of one request as the scheduler sees it: features, no tensors.
type Task struct {
	// Rows is the size along the batch dimension, at least 1.
	Rows int
	// Key names the queue within the version: only tasks of equal Key share an execution. ShapeKey is the part of it that
	// decides the cost of an execution ("" where every shape is fixed).
	Key, ShapeKey string
	// Bytes is the payload's size. Queued bytes count against Config.MaxQueuedBytes.
	Bytes int64
	// Limit is when an answer stops being worth anything: the task is refused, or dropped from its queue, rather than run
	// after it. Zero: no limit beyond the version's MaxLatency.
	Limit time.Time
	// Target is when the answer is wanted, counted from arrival. It orders, and no batch timeout is waited for past
	// the latest start that meets it. Zero or less: the version's default.
	Target   time.Duration
	Priority Priority
	// Alone asks for an execution of its own whatever the version's settings, as proof of batching and warm-up need. The task
	// is never split.
	Alone bool
	// Unmeasured keeps the execution out of the cost model, as befits the first run of a fresh shape. Only with Alone.
	Unmeasured bool
	// Payload is handed to the Executor as it is.
	Payload any
}

// FlushReason says why a batch was formed when it was.
type FlushReason uint8

// The flush reasons.
const (
	FlushUnspecified             FlushReason = iota
	FlushBudgetReached                       // one more task would have cost more device time than MaxBatchCost
	FlushTimeout                             // the oldest task had waited BatchTimeout
	FlushSingleRequestOverBudget             // a lone row costs more than the budget and runs alone
	FlushFull                                // MaxBatchSize rows, or as many as memory suffices for
	FlushDeviceIdle                          // the device was free: nothing is gained by waiting
	FlushDeadline                            // waiting longer would miss a limit or a target that somebody named
	FlushDrain                               // the version or the server is draining
	FlushUnbatched                           // the version or the task runs requests one by one
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

// Outcome tells what happened to a task that was executed. Of a task split over several executions it tells the times of the
// whole and the batch of the last one.
type Outcome struct {
	Queue      time.Duration // from arrival to the start of the first execution
	Compute    time.Duration // from the start of the first execution to the end of the last
	DeviceTime time.Duration // this task's share, by rows, of the device time of its executions, padding included
	Device     string
	Reason     FlushReason
	// BatchRequests and BatchRows count the tasks and rows of the execution; PaddedRows the rows added to fill it up.
	BatchRequests, BatchRows, PaddedRows int
	Executions                           int
}
