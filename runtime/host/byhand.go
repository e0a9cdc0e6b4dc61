package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// LoadVersion makes a version resident that is in the repository now, whether the policy selects it or not, and returns when it is
// ready; by is who wants it. It waits for what the model is busy with already, such as the load of another version. It stays until UnloadVersion, or
// until versions.policy changes, also where the policy selects it now. The error is catalog.ErrUnknown, wrapped, a
// *catalog.LoadError, catalog.ErrBusy, wrapped, if somebody unloads it meanwhile, sharedsched.ErrDraining, wrapped, if the host is
// closed, or the cause of ctx: the version goes on being loaded then. One that the policy does not select is not tried again if it fails.
func (h *Host) LoadVersion(ctx context.Context, name string, number int64, by string) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := h.demand(name, number, by)
	if err == nil {
		h.settleLater(name)
		err = h.awaitVersion(ctx, name, m, number)
	}
	err = errors.Join(err, h.keepByHand(name, number))
	if _, is := errors.AsType[*catalog.LoadError](err); err == nil || is {
		return err
	}
	return fmt.Errorf("load model %q version %d: %w", name, number, err)
}

// demand notes that by wants a version, after a look at what lies in the repository, and waits for it until model.leave.
func (h *Host) demand(name string, number int64, by string) (m *model, _ error) {
	found, err := h.look(name, number)
	if err != nil {
		return nil, err
	}
	h.deciding.Lock()
	defer h.deciding.Unlock()
	overruled := map[string]decisions.Model{}
	h.update(name, func() bool {
		m = h.models[name]
		if found != nil {
			if m == nil {
				m = h.recalled(name)
				h.models[name] = m
			}
			if m.learn(found, number) {
				overruled[name] = m.decided
			}
		}
		if err = catalog.ErrUnknown; m != nil {
			err = m.prefer(number, true, by)
		}
		if err == nil {
			m.waiting[number]++
		}
		return err == nil
	})
	h.keepOverruled(overruled)
	return m, err
}

// leave notes that somebody waits no more for a version that was demanded. The caller holds Host.mu.
func (m *model) leave(number int64) {
	if m.waiting[number]--; m.waiting[number] == 0 {
		delete(m.waiting, number)
	}
}

// look returns the model as it lies in the repository if it has the version, else nil. The error is a *catalog.LoadError: what
// lies there cannot be served.
func (h *Host) look(name string, number int64) (*modelrepo.Model, error) {
	if h.cfg.Scan == nil {
		return nil, nil
	}
	for _, found := range h.cfg.Scan().Models {
		if found.Name != name {
			continue
		}
		if found.Err != nil {
			return nil, &catalog.LoadError{Model: name, Version: number, Cause: hide(found.Err, found.Dir)}
		}
		switch v := numbered(&found, number); {
		case v == nil:
			return nil, nil
		case v.Err != nil:
			return nil, &catalog.LoadError{Model: name, Version: number, Cause: hide(v.Err, found.Dir)}
		}
		return &found, nil
	}
	return nil, nil
}

// learn takes over what was found of one version. Everything else is left to listings, which show no half of a change; but a
// model that no listing had is taken over as it is.
func (m *model) learn(found *modelrepo.Model, number int64) (overruled bool) {
	if m.listed == nil {
		return m.adopt(found)
	}
	m.listed = with(m.listed, *numbered(found, number))
	return false
}

// keepByHand returns the listing with those versions as they were known before that somebody loaded by hand and that it comes too
// early for: it is older than they are, or takes them for half a copy still.
func (m *model) keepByHand(listed *modelrepo.Model) *modelrepo.Model {
	if m.listed == nil {
		return listed
	}
	for _, before := range m.listed.Versions {
		if now := numbered(listed, before.Number); !m.byHand[before.Number].Loaded || now != nil && !errors.Is(now.Err, modelrepo.ErrCopying) {
			continue
		}
		if _, err := os.Stat(before.Dir); err == nil {
			listed = with(listed, before)
		}
	}
	return listed
}

// numbered returns a version of the model, or nil.
func numbered(m *modelrepo.Model, number int64) *modelrepo.Version {
	for i := range m.Versions {
		if v := &m.Versions[i]; v.Number == number {
			return v
		}
	}
	return nil
}

// with returns the model with a version in it as given.
func with(m *modelrepo.Model, v modelrepo.Version) *modelrepo.Model {
	next := *m
	next.Versions = slices.DeleteFunc(slices.Clone(m.Versions), func(other modelrepo.Version) bool { return other.Number == v.Number })
	next.Versions = append(next.Versions, v)
	slices.SortFunc(next.Versions, func(a, b modelrepo.Version) int { return cmp.Compare(a.Number, b.Number) })
	return &next
}

// awaitVersion returns when a version that somebody loads by hand is ready, or why it will not be.
func (h *Host) awaitVersion(ctx context.Context, name string, demanded *model, number int64) error {
	for {
		h.mu.Lock()
		over, err := h.outcome(name, number)
		if over {
			demanded.leave(number)
		}
		changed := h.changesLocked(name)
		h.mu.Unlock()
		if over {
			h.settleLater(name) // where only the caller wanted it
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			h.mu.Lock()
			demanded.leave(number)
			h.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// outcome reports whether it is decided what becomes of a version that somebody loads by hand, and what. If it failed, the last who
// waits for it gives it up, unless it was there before. The caller holds Host.mu.
func (h *Host) outcome(name string, number int64) (over bool, _ error) {
	m := h.models[name]
	if m == nil || m.listed == nil {
		return true, catalog.ErrUnknown
	}
	c := m.want(number)
	if c == nil {
		return true, catalog.ErrBusy // somebody unloads it
	}
	e := m.versions[number]
	switch {
	case e != nil && e.current(*c):
		return true, nil
	case e == nil || e.loading || e.claimed || e.failure == nil || e.failure.due || !e.failure.of.alike(*c):
		return false, nil
	case errors.Is(e.failure.cause, errClosing):
		return true, errClosing // the version did not fail by itself
	}
	if e.resident == nil && m.waiting[number] <= 1 {
		delete(m.byHand, number)
		if !m.selected(number) {
			e.failure.stop()
		}
	}
	return true, &catalog.LoadError{Model: name, Version: number, Cause: e.failure.of.hide(e.failure.cause)}
}

// prefer notes that by loads or unloads a version by hand. The error is catalog.ErrUnknown or a *catalog.LoadError.
func (m *model) prefer(number int64, load bool, by string) error {
	if m.listed == nil {
		return catalog.ErrUnknown
	}
	switch v := numbered(m.listed, number); {
	case v == nil:
		var there []int64
		for _, v := range m.listed.Versions {
			there = append(there, v.Number)
		}
		return fmt.Errorf("%w; the repository has %d of the model", catalog.ErrUnknown, there)
	case v.Err != nil && load:
		return &catalog.LoadError{Model: m.listed.Name, Version: number, Cause: hide(v.Err, m.listed.Dir)}
	}
	m.byHand[number] = decisions.ByHand{Loaded: load, By: by, At: time.Now().UTC()} // also where the policy says the same now: a later listing may select other versions
	if e := m.versions[number]; e != nil && e.failure != nil {
		e.failure.due = true
	}
	return nil
}

// UnloadVersion gives a version up that neither the traffic nor a label names, when it has answered what it accepted. It stays
// away until LoadVersion, or until versions.policy changes. It waits for what the model is busy with already. The error is an *catalog.InUseError, catalog.ErrUnknown or catalog.ErrBusy, wrapped, the
// cause of ctx (the version keeps draining then), or what the engine says.
func (h *Host) UnloadVersion(ctx context.Context, name string, number int64, by string) error {
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
		if err := m.prefer(number, false, by); err != nil && !errors.Is(err, catalog.ErrUnknown) {
			return err // not for one that is gone from disk: it does not come back anyway
		}
		return nil
	}, nil)
	h.settleLater(name) // which waits for the draining if ctx ended, and forgets a model that is gone
	return errors.Join(err, h.keepByHand(name, number))
}

// keepByHand keeps what became of a version that somebody loaded or unloaded by hand. A load counts when it succeeded: what may take
// the process down is not tried again by the next one.
func (h *Host) keepByHand(name string, number int64) error {
	err := h.decide(name, false, func(m *model) (decisions.Model, error) {
		now, said := m.byHand[number]
		before, was := m.decided.ByHand[number]
		if said == was && now.Loaded == before.Loaded || now.Loaded && !m.ready(number) {
			return m.decided, errNothingToKeep
		}
		after := m.decided
		if after.ByHand = maps.Clone(after.ByHand); after.ByHand == nil {
			after.ByHand = map[int64]decisions.ByHand{}
		}
		if after.ByHand[number] = now; !said {
			delete(after.ByHand, number)
		}
		return after, nil
	})
	if e, is := errors.AsType[*catalog.KeepError](err); is {
		return &catalog.KeepError{Model: name, Done: true, Cause: e.Cause}
	}
	return nil
}

// errNothingToKeep says that what was kept still holds.
var errNothingToKeep = errors.New("nothing is to be kept")
