package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// LoadVersion makes a version resident that is in the repository, whether the policy selects it or not, and returns when it is
// ready. It stays until UnloadVersion, or until versions.policy changes. The error is catalog.ErrUnknown, wrapped, why it cannot be
// loaded, or the cause of ctx.
func (h *Host) LoadVersion(ctx context.Context, name string, number int64) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := h.take(ctx, name)
	if err != nil {
		return fmt.Errorf("load model %q version %d: %w", name, number, err)
	}
	defer m.release()

	h.mu.Lock()
	selected, err := m.prefer(number, true)
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("load model %q version %d: %w", name, number, err)
	}
	h.settle(ctx, name, m, false)
	if ctx.Err() != nil {
		h.settleLater(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := m.versions[number]
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case e != nil && e.failure != nil:
		err = e.failure.cause
		if !selected {
			// Only the caller wanted it, and has been told.
			delete(m.byHand, number)
			e.failure.stop()
		}
	case m.ready(number):
		return nil
	default:
		err = catalog.ErrBusy // somebody unloads it
	}
	return fmt.Errorf("load model %q version %d: %w", name, number, err)
}

// prefer notes that somebody loads or unloads a version by hand. It reports whether the policy selects the version.
func (m *model) prefer(number int64, load bool) (selected bool, err error) {
	if m.listed == nil {
		return false, catalog.ErrUnknown
	}
	i := slices.IndexFunc(m.listed.Versions, func(v modelrepo.Version) bool { return v.Number == number })
	if i < 0 {
		return false, catalog.ErrUnknown
	}
	if err := m.listed.Versions[i].Err; err != nil && load {
		return false, err
	}
	selected = slices.ContainsFunc(m.listed.Selected, func(v modelrepo.Version) bool { return v.Number == number })
	delete(m.byHand, number)
	if selected != load {
		m.byHand[number] = load
	}
	if e := m.versions[number]; e != nil && e.failure != nil {
		e.failure.due = true
	}
	return selected, nil
}

// UnloadVersion gives a version up that neither the traffic nor a label names, when it has answered what it accepted. It stays
// away until LoadVersion, or until versions.policy changes. The error is an *catalog.InUseError, catalog.ErrUnknown or catalog.ErrBusy, wrapped, the
// cause of ctx (the version keeps draining then), or what the engine says.
func (h *Host) UnloadVersion(ctx context.Context, name string, number int64) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := h.take(ctx, name)
	if err != nil {
		return fmt.Errorf("unload model %q version %d: %w", name, number, err)
	}
	defer m.release()
	err = h.unload(ctx, name, number, func(m *model, e *entry) error {
		if by := m.namedBy(number); len(by) > 0 && e.resident != nil {
			return &catalog.InUseError{Model: name, Version: number, By: by}
		}
		e.failure.stop()
		if _, err := m.prefer(number, false); err != nil && !errors.Is(err, catalog.ErrUnknown) {
			return err // not for one that is gone from disk: it does not come back anyway
		}
		return nil
	}, nil)
	if ctx.Err() != nil {
		h.settleLater(name) // where the draining is waited for
	}
	return err
}
