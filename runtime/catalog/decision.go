package catalog

import (
	"fmt"
	"time"
)

// RolledBack is a version that was given up, until somebody gives it traffic by name.
type RolledBack struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	Why     string    `json:"why,omitempty"`
}

// Decision is a change that an operator or a rollout makes to a model at run time. All of it takes place, or nothing.
type Decision struct {
	// Traffic is how requests are to be divided. Its Revision and At are not looked at. Nil: as before.
	Traffic *Traffic
	// Expected must be the present revision of the traffic; 0: whatever that is.
	Expected uint64
	// RollBack is a version to roll back, nil for none. Its At is not looked at.
	RollBack *RolledBack
	// Rollout is the model's rollout afterwards, as JSON. Nil: as before.
	Rollout []byte
}

// KeepError says that a decision could not be kept beyond the life of the server, and was therefore not made.
type KeepError struct {
	Model string
	// Done: it could only be kept once it was made, and the next start of the server will undo it.
	Done  bool
	Cause error // without a path
}

func (e *KeepError) Error() string {
	what := "nothing was changed, because the change"
	if e.Done {
		what = "it was done, but will be undone when the server is started again, because it"
	}
	return fmt.Sprintf("model %q: %s could not be kept in the state directory: %v", e.Model, what, e.Cause)
}

func (e *KeepError) Unwrap() error { return e.Cause }
