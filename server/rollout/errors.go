package rollout

import (
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
)

// Errors of Start, Advance and Abort. They come wrapped, with the model and a remedy.
var (
	// ErrNone: the model has no rollout.
	ErrNone = errors.New("no rollout")
	// ErrRunning: the model has one already.
	ErrRunning = errors.New("a rollout is running")
	// ErrEnded: the model's latest rollout is over.
	ErrEnded = errors.New("the rollout has ended")
)

// PlanError says which part of a plan, or of its promotion gate, is wrong, by its name in weft.v1.Rollout.
type PlanError struct{ Field, Want, Got string }

func (e *PlanError) Error() string {
	return fmt.Sprintf("rollout.%s: expected %s, found %s", e.Field, e.Want, e.Got)
}

// UnknownError says that a plan names something that is not there.
type UnknownError struct {
	Model   string
	Version int64 // 0: it is the model
}

func (e *UnknownError) Error() string {
	if e.Version == 0 {
		return fmt.Sprintf("model %q is not in the repository", e.Model)
	}
	return fmt.Sprintf("model %q has no version %d loaded: `weft load %[1]s %d` loads it (`weft push --rollout` keeps "+
		"both versions), or select it by versions.policy in model.yaml", e.Model, e.Version)
}

// NotReadyError says that a plan names a version that takes no requests.
type NotReadyError struct {
	Model   string
	Version int64
	State   catalog.State
	Cause   string
}

func (e *NotReadyError) Error() string {
	s := fmt.Sprintf("model %q version %d is %v, not ready: a rollout needs both versions ready", e.Model, e.Version,
		e.State)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	return s
}
