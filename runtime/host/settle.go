package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// step is what is to be done to a model next. What is to be unloaded goes first.
type step struct {
	load   []candidate
	unload []int64
	// settings are resident versions that follow another manifest from now on, and cured those whose last failure does not
	// matter any more.
	settings []candidate
	cured    []int64
	kept     map[int64]string // are not wanted and stay, and why
	// grow are resident versions that are to have a further replica, and shrink those that have one too many.
	grow, shrink []candidate
	// raise are resident versions that a device of a better rank has room for.
	raise []candidate
}

// settle does what is to be done to a model until nothing is left, or ctx ends. After each step it looks anew at what is wanted.
// The caller has the model's turn.
func (h *Host) settle(ctx context.Context, name string, m *model) {
	var tried []int64 // to unload, in vain
	for ctx.Err() == nil {
		h.mu.Lock()
		s := m.next()
		h.mu.Unlock()
		s.unload = slices.DeleteFunc(s.unload, func(n int64) bool { return slices.Contains(tried, n) || h.isBusy(name, m, n) })
		h.noteKept(name, m, s.kept)
		switch {
		case len(s.settings)+len(s.cured) > 0:
			h.followManifest(ctx, name, m, s)
		case len(s.unload) > 0: // not before what is to come is ready, unless resource says so
			tried = append(tried, h.unloadSurplus(ctx, name, s.unload)...)
		case len(s.load) > 0:
			h.loadAll(ctx, s.load, h.load)
		case len(s.raise) > 0: // before they get further replicas, which have the rank of the first
			h.loadAll(ctx, s.raise, h.raise)
		case len(s.shrink) > 0:
			for _, c := range s.shrink {
				h.shrink(c)
			}
		case len(s.grow) > 0:
			h.loadAll(ctx, s.grow, h.grow)
		default:
			return
		}
	}
}

// busyTick is how often a version is looked at again that stays for the episodes running on it.
const busyTick = time.Second

// isBusy reports whether a version that nobody wants stays for its episodes, and has it looked at again if so.
func (h *Host) isBusy(name string, m *model, number int64) bool {
	if h.cfg.Busy == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !m.ready(number) || m.listed == nil || m.listed.Manifest.Versions.Transition == modelrepo.ResourceFirst || !h.cfg.Busy(name, number) {
		return false
	}
	if !m.again {
		m.again = true
		time.AfterFunc(busyTick, func() {
			h.mu.Lock()
			m.again = false
			h.mu.Unlock()
			h.settleLater(name)
		})
	}
	return true
}

// settleLater has a model settled in the background, after any change of what is wanted, and returns what is closed when that is
// done or cannot be. One settler at most waits for another: it will see all that was noted until it begins.
func (h *Host) settleLater(name string) (settled <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.models[name]
	if m != nil && m.coming != nil {
		return m.coming
	}
	done := make(chan struct{})
	if m == nil || h.closed {
		close(done)
		return done
	}
	m.coming = done
	h.loads.Go(func() {
		defer close(done)
		select {
		case m.turn <- struct{}{}:
			defer m.release()
		case <-h.stop.Done():
			return
		}
		h.mu.Lock()
		m.coming = nil
		forgotten := h.models[name] != m
		h.mu.Unlock()
		if forgotten {
			return
		}
		h.settle(h.stop, name, m)
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.empty() {
			delete(h.models, name) // the only place where that is done
		}
	})
	return done
}

// next returns what is to be done next.
func (m *model) next() (s step) {
	wanted := m.wanted()
	s.load = m.due(wanted)
	s.unload, s.kept = m.superfluous(wanted)
	for _, c := range wanted {
		e := m.versions[c.version.Number]
		switch {
		case e == nil || e.claimed || e.loading:
		case e.current(c):
			v := e.resident
			if !sameSettings(v.settings, c.manifest) {
				s.settings = append(s.settings, c)
			} else if e.failure != nil {
				s.cured = append(s.cured, c.version.Number)
			}
			if has := len(v.list()); has < v.wants() && v.scarce == "" {
				s.grow = append(s.grow, c)
			} else if has > v.wants() {
				s.shrink = append(s.shrink, c)
			}
		}
	}
	s.raise = m.toRaise(wanted, s.kept)
	for n, e := range m.versions {
		if e.resident != nil && !e.resident.ready.Load() && !e.claimed && !slices.Contains(s.unload, n) {
			s.unload = append(s.unload, n) // somebody began to unload it and went away
		}
	}
	if m.listed != nil && m.listed.Manifest.Versions.Transition == modelrepo.ResourceFirst {
		for _, c := range s.load {
			if e := m.versions[c.version.Number]; e != nil && e.resident != nil {
				s.unload = append(s.unload, c.version.Number)
			}
		}
	}
	return s
}

// followManifest applies changed settings to versions that stay resident.
func (h *Host) followManifest(ctx context.Context, name string, m *model, s step) {
	for _, n := range s.cured {
		h.updateVersion(name, n, func(e *entry, public *catalog.Version) {
			e.failure.stop()
			e.failure, public.Cause, public.Fault = nil, "", nil
		})
	}
	for _, c := range s.settings {
		h.mu.Lock()
		v := m.versions[c.version.Number].resident
		h.mu.Unlock()
		if v == nil {
			continue // its device was lost meanwhile
		}
		if err := h.reconfigure(ctx, c, v); ctx.Err() != nil {
			return
		} else if err != nil {
			h.log.Error("a model version cannot follow its changed manifest", "model", c.model, "version", c.version.Number, "cause", err)
			h.updateVersion(c.model, c.version.Number, func(_ *entry, public *catalog.Version) {
				hidden := c.hide(err)
				public.Cause, public.Fault = "model.yaml changed, but its settings cannot be followed: "+hidden.Text, hidden
			})
		}
	}
}

// loadAll loads versions, or further replicas, side by side.
func (h *Host) loadAll(ctx context.Context, all []candidate, load func(context.Context, candidate)) {
	var group errgroup.Group
	for _, c := range all {
		group.Go(func() error {
			load(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // a load that fails is published, not returned
}

// unloadSurplus unloads versions one after the other, unless something came to need one of them meanwhile. It returns those that
// it could not unload.
func (h *Host) unloadSurplus(ctx context.Context, name string, numbers []int64) (failed []int64) {
	for _, n := range numbers {
		var next *catalog.Version
		err := h.unload(ctx, name, n, func(m *model, _ *entry) error {
			again := m.next()
			if !slices.Contains(again.unload, n) {
				return errNeeded
			}
			if c := m.want(n); c != nil {
				next = c.announced()
			} else if m.listed != nil {
				next = unusable(m.listed, n)
			}
			return nil
		}, func() *catalog.Version { return next })
		switch {
		case err == nil:
			h.log.Info("a model version is unloaded", "model", name, "version", n)
		case errors.Is(err, errNeeded):
		default:
			failed = append(failed, n)
			if ctx.Err() == nil && !errors.Is(err, catalog.ErrBusy) && !errors.Is(err, catalog.ErrUnknown) {
				h.log.Error("a model version was not unloaded cleanly", "model", name, "version", n, "cause", err)
			}
		}
	}
	return failed
}

// errNeeded says that a version is wanted again.
var errNeeded = errors.New("the version is wanted again")

// noteKept logs versions that stay although the policy does not select them any more, once for each reason.
func (h *Host) noteKept(name string, m *model, kept map[int64]string) {
	for _, n := range slices.Sorted(maps.Keys(kept)) {
		h.mu.Lock()
		e := m.versions[n]
		known := e == nil || e.resident == nil || e.kept == kept[n]
		if !known {
			e.kept = kept[n]
		}
		h.mu.Unlock()
		if !known {
			h.log.Warn("a model version stays resident although versions.policy does not select it any more", "model", name, "version", n, "why", kept[n])
		}
	}
}
