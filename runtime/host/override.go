package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// LoadVersion makes a version resident that is in the repository now, whether the policy selects it or not, and returns
// when it is ready; by names the caller. It waits for the steps that the model is busy with already, such as the load
// of another version. The version stays until UnloadVersion, or until versions.policy changes, even if the policy
// selects it now. A version that the policy does not select is not tried again if it fails.
//
// The error is catalog.ErrUnknown, wrapped, a *catalog.LoadError, catalog.ErrBusy, wrapped, if somebody unloads it
// meanwhile, sharedsched.ErrDraining, wrapped, if the host is closed, or the cause of ctx: the version goes on being
// loaded then.
func (h *Host) LoadVersion(ctx context.Context, name string, number int64, by string) error {
	ctx, done, err := h.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err = h.override(name, number, true, by); err == nil {
		err = h.awaitLoad(ctx, name, number)
	}
	err = errors.Join(err, h.keepOverride(name, number))
	if _, is := errors.AsType[*catalog.LoadError](err); err == nil || is {
		return err
	}
	return fmt.Errorf("load model %q version %d: %w", name, number, err)
}

// override tells residency that by loads or unloads a version. The repository is read before the locks are taken,
// because that may take long. The error is that of residency.Lookup or of MayOverride, and then nothing has changed.
func (h *Host) override(name string, number int64, load bool, by string) error {
	var found *modelrepo.Model
	if load && h.cfg.Scan != nil {
		var err error
		if found, err = residency.Lookup(h.cfg.Scan(), name, number); err != nil {
			return err
		}
	}
	h.deciding.Lock()
	defer h.deciding.Unlock()
	e := residency.Overridden{Model: name, Number: number, Load: load, By: by}
	if found != nil {
		l := h.listed(found)
		e.Found = &l
	}
	h.mu.Lock()
	err := h.residency.Model(name).MayOverride(found, number, load)
	if by := h.residency.AskedBy(name, number); err == nil && !load && len(by) > 0 {
		err = &catalog.InUseError{Model: name, Version: number, By: by}
	}
	if err != nil {
		h.mu.Unlock()
		return err
	}
	rest := h.stepLocked(e)
	if !load {
		h.interruptLocked(name, number)
	}
	h.mu.Unlock()
	rest()
	return nil
}

// await calls over after each change of the model until it says that the outcome is decided, and returns that outcome,
// or the cause of ctx. over is called with Host.mu held. The channel of changes is taken under the same lock, so that
// no change is missed.
func (h *Host) await(ctx context.Context, name string, over func(*residency.Model) (bool, error)) error {
	for {
		h.mu.Lock()
		is, err := over(h.residency.Model(name))
		changed := h.changesLocked(name)
		h.mu.Unlock()
		if is {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitLoad returns nil when a version that somebody loads by override is ready, or why it will not be. In any case
// residency learns that the caller waits no longer (residency.GaveUp).
func (h *Host) awaitLoad(ctx context.Context, name string, number int64) error {
	gaveUp := residency.GaveUp{Model: name, Number: number}
	err := h.await(ctx, name, func(m *residency.Model) (over bool, err error) {
		over, gaveUp.Failed, err = loadOutcome(m, name, number)
		return over, err
	})
	h.step(gaveUp)
	return err
}

// loadOutcome is residency's LoadOutcome, with the error that callers get. failed says that the version failed by
// itself.
func loadOutcome(m *residency.Model, name string, number int64) (over, failed bool, _ error) {
	over, of, err := m.LoadOutcome(number)
	if of == nil || errors.Is(err, errClosing) {
		return over, false, err
	}
	return true, true, &catalog.LoadError{Model: name, Version: number, Cause: of.Hide(err)}
}

// AwaitVersion returns when a version that has come into the repository is ready, or why it will not be: an error of
// LoadVersion. served is false if it is not to be resident. It judges by a listing that Follow has heard of since, not
// by the disk, which may show half of somebody's change, nor by what was known before: that may be another version.
func (h *Host) AwaitVersion(ctx context.Context, name string, number int64) (served bool, _ error) {
	ctx, done, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	if err := h.cfg.Looked(ctx); err != nil {
		return false, err
	}
	err = h.await(ctx, name, func(m *residency.Model) (bool, error) {
		switch found, err := m.Found(number); {
		case errors.Is(err, modelrepo.ErrCopying):
			return false, nil
		case err != nil, !found, !served && m.Want(number) == nil:
			return true, err
		}
		served = true
		over, _, err := loadOutcome(m, name, number)
		return over, err
	})
	return served, err
}

// UnloadVersion unloads a version that neither the traffic nor a label names, and returns when it has answered its
// accepted requests. It stays away until LoadVersion, or until versions.policy changes. UnloadVersion ends openings of
// the version, and waits for other steps that the model is busy with already. The error is a *catalog.InUseError,
// catalog.ErrUnknown or catalog.ErrBusy, wrapped, the cause of ctx (the version keeps draining then), or the engine's
// error.
func (h *Host) UnloadVersion(ctx context.Context, name string, number int64, by string) error {
	ctx, done, err := h.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	// It listens before the unload begins, because the version may be gone, and back, before await looks.
	heard := h.hear(name, number)
	if err = h.override(name, number, false, by); err == nil {
		err = h.await(ctx, name, func(m *residency.Model) (bool, error) {
			if heard.closed { // perhaps somebody loads it again already
				return true, heard.unclean
			}
			return m.UnloadOutcome(number)
		})
		if ctx.Err() != nil && err != nil {
			h.step(residency.Withdrawn{Model: name, Number: number})
			err = fmt.Errorf("waiting for its last requests: %w", err)
		}
	}
	h.unhear(heard)
	if err != nil {
		err = fmt.Errorf("unload model %q version %d: %w", name, number, err)
	}
	return errors.Join(err, h.keepOverride(name, number))
}

// listener hears how a version that somebody unloads by override is closed: residency forgets a version that is gone,
// and with it the engine's error.
type listener struct {
	model  string
	number int64

	// Guarded by Host.mu.
	closed  bool
	unclean error
}

// hear registers a listener, which unhear removes.
func (h *Host) hear(name string, number int64) *listener {
	l := &listener{model: name, number: number}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = struct{}{}
	return l
}

func (h *Host) unhear(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// keepOverride keeps the outcome of a load or an unload by override beyond the life of the process. The error is a
// *catalog.KeepError that says that the load or unload itself is done.
func (h *Host) keepOverride(name string, number int64) error {
	err := h.decide(name, false, func(m *residency.Model) (decisions.Model, error) {
		after, news := m.KeepOverride(number)
		if !news {
			return after, errNothingToKeep
		}
		return after, nil
	})
	if e, is := errors.AsType[*catalog.KeepError](err); is {
		return &catalog.KeepError{Model: name, Done: true, Cause: e.Cause}
	}
	return nil
}

// errNothingToKeep says that the decisions that were kept still hold.
var errNothingToKeep = errors.New("nothing is to be kept")
