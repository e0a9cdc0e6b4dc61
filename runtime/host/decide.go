package host

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
)

// Keeper keeps decisions beyond the life of the process. decisions.Store is one.
type Keeper interface {
	// Recall returns what was kept of a model, and whether there was anything. It must not block.
	Recall(model string) (decisions.Model, bool)
	// Keep returns when what was decided of a model is lasting, and at once where nothing is ever kept. After an error what was kept
	// before still is.
	Keep(model string, m decisions.Model) error
}

// recalled returns a model of which nothing is known yet but what was decided of it, by an earlier process too.
func (h *Host) recalled(name string) *model {
	m := &model{turn: make(chan struct{}, 1), versions: map[int64]*entry{}, byHand: map[int64]decisions.ByHand{}, waiting: map[int64]int{}}
	if m.decided, m.kept = h.cfg.Keeper.Recall(name); !m.kept {
		m.decided, _ = m.decided.Follow(decisions.Manifest{}, time.Time{})
	}
	maps.Copy(m.byHand, m.decided.ByHand)
	m.traffic.public = m.decided.Traffic
	return m
}

// decide makes a decision about a model: plan, called with Host.mu held, says what holds afterwards, or why nothing is to change. That is
// kept first and published then. Of a model that is not there it is only kept, if absent says so. The error is that of plan, or
// a *catalog.KeepError.
func (h *Host) decide(name string, absent bool, plan func(*model) (decisions.Model, error)) error {
	h.deciding.Lock()
	defer h.deciding.Unlock()
	h.mu.Lock()
	m := h.models[name]
	if m == nil && !absent {
		h.mu.Unlock()
		return fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
	}
	if m == nil {
		m = h.recalled(name)
	}
	after, err := plan(m)
	m.traffic.deciding = err == nil
	h.mu.Unlock()
	if err != nil {
		return err
	}
	kept := h.keepDecision(name, after)
	h.update(name, func() bool {
		m.traffic.deciding = false
		if h.models[name] != m {
			return false // it is gone meanwhile, and will be recalled should it come back
		}
		if kept != nil {
			return true // for what was not resolved meanwhile
		}
		m.kept = true
		if m.decided.Traffic != after.Traffic {
			m.traffic.public = after.Traffic
		}
		m.decided = after
		return true
	})
	return kept
}

// keepDecision keeps what was decided of a model. The error is a *catalog.KeepError. The caller holds Host.deciding.
func (h *Host) keepDecision(name string, after decisions.Model) error {
	err := h.cfg.Keeper.Keep(name, after)
	if err == nil {
		return nil
	}
	h.log.Error("a decision could not be kept", "model", name, "cause", err)
	// Without a path, which is nothing to the caller.
	if cause, is := errors.AsType[syscall.Errno](err); is {
		return &catalog.KeepError{Model: name, Cause: cause}
	}
	if errors.Is(err, decisions.ErrLost) {
		return &catalog.KeepError{Model: name, Cause: decisions.ErrLost}
	}
	return &catalog.KeepError{Model: name, Cause: errors.New("the server's log tells why")}
}
