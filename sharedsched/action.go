package sharedsched

import "time"

// Action is something that Core wants done.
type Action struct {
	Kind    ActionKind
	Version VersionID
	// For TaskEnded. Outcome is valid until the next Submit.
	Task    Handle
	End     End
	Outcome *Outcome
	// For EndDropped: why; the time that was left, and that an execution takes; and when the next batch ends, after
	// which another attempt may fare better.
	Drop       DropReason
	Had, Needs time.Duration
	RetryAfter time.Duration
}

// Refusal returns the error for the caller of a task that ended as EndDropped, with the reason.
func (a *Action) Refusal() *Refusal {
	r := &Refusal{Reason: RefusedForGoodput, Predicted: a.Needs, Limit: a.Had, RetryAfter: a.RetryAfter}
	switch a.Drop {
	case DropHopeless:
		r.Reason, r.RetryAfter = RefusedDeadline, -1
	default:
	}
	return r
}

// ActionKind says what an Action asks for.
type ActionKind uint8

// The kinds of action.
const (
	// TaskEnded: answer its caller; the handle names nothing any more.
	TaskEnded ActionKind = iota + 1
	// VersionGone: the last task of a version that was removed has ended.
	VersionGone
)

// End is how a task ended. Every admitted task ends exactly once.
type End uint8

// The ways a task ends.
const (
	// EndDone: every row was executed.
	EndDone End = iota + 1
	// EndFailed: an execution failed on it; its other rows were never started.
	EndFailed
	// EndCancelled: its caller gave up; no row was started after that.
	EndCancelled
	// EndExpired: its limit passed while rows waited.
	EndExpired
	// EndClosed: the scheduler was closed.
	EndClosed
	// EndDropped: it could not meet its limit, or was given up so that others meet theirs.
	EndDropped
	// EndRemoved: its version was expelled, or its device removed, while rows waited.
	EndRemoved
	// EndAgain: an execution that it was in failed or did not begin, and it is to be submitted once more.
	EndAgain
)

// String returns done, failed, cancelled, expired, closed, dropped, removed or again.
func (e End) String() string {
	return [...]string{"none", "done", "failed", "cancelled", "expired", "closed", "dropped", "removed", "again"}[e]
}
