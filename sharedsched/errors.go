package sharedsched

import (
	"errors"
	"fmt"
	"time"
)

// Errors that end a task without an answer. Refusal and the error of an execution are the other two ways.
var (
	// ErrExpired: the limit passed while rows of the task were queued. They were not executed.
	ErrExpired = errors.New("the deadline passed while the request was queued")
	// ErrRemoved: the version is being unloaded, or was expelled, or its device was removed, and takes no more work.
	ErrRemoved = errors.New("the model version is being unloaded")
	// ErrDraining: the server is shutting down and takes no more work.
	ErrDraining = errors.New("the server is draining")
	// ErrClosed: the scheduler stopped, before the task could run or the device be added.
	ErrClosed = errors.New("the scheduler is closed")
	// ErrNoRows: the task has no row.
	ErrNoRows = errors.New("a request needs at least one row")
	// ErrTooManyRows: the task has more rows than the version may ever take.
	ErrTooManyRows = errors.New("more rows than the model takes in one request")
)

// RefusalReason says why a task was turned away.
type RefusalReason uint8

// The refusal reasons.
const (
	// RefusedQueueFull: MaxQueue tasks of the version, or MaxQueuedBytes in all, are waiting.
	RefusedQueueFull RefusalReason = iota + 1
	// RefusedDeadline: the limit certainly cannot be met.
	RefusedDeadline
	// RefusedForGoodput: refused or dropped in overload so that others meet their limits.
	RefusedForGoodput
)

// String returns the reason as error details and metrics spell it.
func (r RefusalReason) String() string {
	switch r {
	case RefusedQueueFull:
		return "QUEUE_FULL"
	case RefusedDeadline:
		return "DEADLINE_UNATTAINABLE"
	case RefusedForGoodput:
		return "DROPPED_FOR_GOODPUT"
	}
	return fmt.Sprintf("REFUSAL_REASON(%d)", uint8(r))
}

// Refusal is the error of a task that was not admitted, or sacrificed, with the numbers that decided it.
type Refusal struct {
	Reason RefusalReason
	// Identity is whose tasks count, and whose share; "": those of the version's flow.
	Identity string
	// Queued and MaxQueue are tasks of the version and flow. The next fields are set when that was not the limit: the
	// bytes of this task, of all waiting tasks, and the most there may be; or the most keys that may wait, where this
	// one was one more.
	Queued, MaxQueue                   int
	Bytes, QueuedBytes, MaxQueuedBytes int64
	Keys                               int
	// Predicted and Limit are set for RefusedDeadline, and for RefusedForGoodput where the task was not admitted: the
	// time until an answer, and the time there is.
	Predicted, Limit time.Duration
	// RetryAfter is when room can be expected; negative: a retry is pointless.
	RetryAfter time.Duration
}

// Error returns the reason and the numbers in one sentence, durations with their unit.
func (r *Refusal) Error() string {
	switch {
	case r.Reason == RefusedDeadline:
		return fmt.Sprintf("the deadline cannot be met: an answer takes about %v, %v are left", r.Predicted, r.Limit)
	case r.Reason == RefusedForGoodput && r.Predicted > 0:
		whose := "its share of it the model"
		if r.Identity != "" {
			whose = fmt.Sprintf("the share of identity %q the model", r.Identity)
		}
		return fmt.Sprintf("the device is overloaded: within %s answers in about %v, of %v that are left", whose,
			r.Predicted, r.Limit)
	case r.Reason == RefusedForGoodput:
		return "dropped in overload so that other requests meet their deadlines"
	case r.MaxQueuedBytes > 0:
		return fmt.Sprintf("the server's queues are full: %d of %d bytes wait, and the request brings %d",
			r.QueuedBytes, r.MaxQueuedBytes, r.Bytes)
	case r.Identity != "" && r.Keys > 0:
		return fmt.Sprintf("the queue is full: requests of identity %q of %d different shapes or unbatched values wait, "+
			"which is the most", r.Identity, r.Keys)
	case r.Identity != "":
		return fmt.Sprintf("the queue is full: %d of %d requests of identity %q wait", r.Queued, r.MaxQueue, r.Identity)
	case r.Keys > 0:
		return fmt.Sprintf("the queue is full: requests of %d different shapes or unbatched values wait, which is the "+
			"most", r.Keys)
	}
	return fmt.Sprintf("the queue is full: %d of %d requests wait", r.Queued, r.MaxQueue)
}
