package host

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/residency"
)

// Keeper keeps decisions beyond the life of the process. decisions.Store is one.
type Keeper interface {
	// Recall returns the decisions that were kept about a model, and whether there were any. It must not block.
	Recall(model string) (decisions.Model, bool)
	// Keep returns when the decisions about a model are lasting, and at once where nothing is ever kept. After an error
	// those kept before remain.
	Keep(model string, m decisions.Model) error
}

// decide makes a decision about a model: plan, called with Host.mu held, returns the decisions in force afterwards, or
// why nothing changes. They are kept first and published then, so that no caller sees a decision that a crash would
// undo. For a model that is not there they are only kept, if absent is true. The error is that of plan, or a
// *catalog.KeepError.
//
// Writing to a disk may take long. It is done without Host.mu, and residency.Deciding and residency.Decided tell the
// state machine that it is under way.
func (h *Host) decide(name string, absent bool, plan func(*residency.Model) (decisions.Model, error)) error {
	h.deciding.Lock()
	defer h.deciding.Unlock()
	h.mu.Lock()
	m := h.residency.Model(name)
	if m == nil && !absent {
		h.mu.Unlock()
		return fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
	}
	if m == nil {
		m = residency.Recalled(name, h.recall(name))
	}
	after, err := plan(m)
	if err != nil {
		h.mu.Unlock()
		return err
	}
	rest := h.stepLocked(residency.Deciding{Model: name})
	h.mu.Unlock()
	rest()
	decided := residency.Decided{Model: name}
	kept := h.keepDecision(name, after)
	if kept == nil {
		decided.After = &after
	}
	h.step(decided)
	return kept
}

// keepDecision writes the decisions about a model. The error is a *catalog.KeepError, whose cause a remote caller may
// see. The caller holds Host.deciding.
func (h *Host) keepDecision(name string, after decisions.Model) error {
	err := h.cfg.Keeper.Keep(name, after)
	if err == nil {
		return nil
	}
	h.log.Error("decision not kept", "event", "decision_not_kept", "model", name, "cause", err)
	// Without a path, which is nothing to the caller.
	if cause, is := errors.AsType[syscall.Errno](err); is {
		return &catalog.KeepError{Model: name, Cause: cause}
	}
	if errors.Is(err, decisions.ErrLost) {
		return &catalog.KeepError{Model: name, Cause: decisions.ErrLost}
	}
	return &catalog.KeepError{Model: name, Cause: errors.New("the server's log tells why")}
}
