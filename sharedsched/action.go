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

// ActionKind tells what an Action asks for.
type ActionKind uint8

// The kinds of action.
const (
	TaskEnded   ActionKind = iota + 1 // answer its caller; the handle names nothing any more
	VersionGone                       // the last task of a version that was removed has ended
)

// End is how a task ended. Every admitted task ends exactly once.
type End uint8

// The ways a task ends.
const (
	EndDone      End = iota + 1 // every row was executed
	EndFailed                   // an execution failed on it; its other rows were never started
	EndCancelled                // its caller gave up; no row was started after that
	EndExpired                  // its limit passed while rows waited
	EndClosed                   // the scheduler was closed
	EndDropped                  // it could not meet its limit, or was given up so that others meet theirs
	EndRemoved                  // its version was expelled while rows waited
)

// String returns done, failed, cancelled, expired, closed, dropped or removed.
func (e End) String() string {
	return [...]string{"none", "done", "failed", "cancelled", "expired", "closed", "dropped", "removed"}[e]
}
