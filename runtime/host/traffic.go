package host

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// SetTraffic divides a model's traffic anew, at once and as a whole, and returns what is published. Nil is the newest
// ready version for everything. Otherwise it is as Decide.
func (h *Host) SetTraffic(name string, t *catalog.Traffic, expected uint64) (public *catalog.Traffic, err error) {
	if t == nil {
		t = &catalog.Traffic{}
	}
	return h.Decide(name, catalog.Decision{Traffic: t, Expected: expected})
}

// Decide makes a decision about a model, and returns the traffic that is published then. The traffic's Source is
// "SetTraffic" if it is empty. It holds until the next one, or until the manifest says something else than before, and
// it outlives the process where there is a Config.Keeper. All versions that it names must be ready, but for shadows
// that were named before: they come back when they can, and must not keep anybody from moving traffic meanwhile. The
// error is catalog.ErrUnknown, wrapped, a *catalog.TrafficError, a *catalog.NotReadyError, a *catalog.RevisionError or
// a *catalog.KeepError. A model that is not there may still be told of its rollout.
func (h *Host) Decide(name string, d catalog.Decision) (public *catalog.Traffic, err error) {
	now := time.Now().UTC()
	var next *catalog.Traffic
	if t := d.Traffic; t != nil {
		next = &catalog.Traffic{
			Source: cmp.Or(t.Source, "SetTraffic"), Split: slices.Clone(t.Split),
			Shadow: slices.Clone(t.Shadow), By: t.By, At: now,
		}
		if err := next.Check(); err != nil {
			return nil, err
		}
	}
	plan := func(m *residency.Model) (after decisions.Model, err error) {
		after = m.Decided
		if next != nil {
			if err := mayDivide(m, next, d.Expected); err != nil {
				return after, err
			}
			after = after.Divide(next)
		}
		if r := d.RollBack; r != nil {
			after = after.RollBack(catalog.RolledBack{Version: r.Version, At: now, By: r.By, Why: r.Why})
		}
		if d.Rollout != nil {
			after.Rollout = d.Rollout
			if next != nil {
				after.RolloutRevision = next.Revision
			}
		}
		return after, nil
	}
	if err := h.decide(name, next == nil, plan); err != nil {
		return nil, err
	}
	return next, nil
}

// mayDivide returns why the traffic may not be divided so.
func mayDivide(m *residency.Model, next *catalog.Traffic, expected uint64) error {
	now := m.Traffic.Public
	// First: who did not see the last change may name what that gave up.
	if expected != 0 && expected != now.Revision {
		return &catalog.RevisionError{Model: m.Name, Current: now.Revision, Expected: expected}
	}
	for _, n := range newVersionsOf(next, now) {
		if err := mustBeReady(m, n); err != nil {
			return err
		}
	}
	return nil
}

// mustBeReady returns a *catalog.NotReadyError unless the version takes requests.
func mustBeReady(m *residency.Model, number int64) error {
	if m.Ready(number) {
		return nil
	}
	err := &catalog.NotReadyError{Model: m.Name, Version: number, Cause: m.Cause}
	if v := m.Versions[number]; v != nil {
		err.State, err.Cause = publicStates[v.State], ""
		if v.Cause != nil {
			err.Cause = v.Cause.Text
		}
	}
	return err
}

// newVersionsOf returns the versions that a traffic leads to, and those that it has in the shadow and before had not.
func newVersionsOf(t, before *catalog.Traffic) []int64 {
	var all []int64
	for _, s := range t.Split {
		all = append(all, s.Version)
	}
	for _, s := range t.Shadow {
		if !slices.ContainsFunc(before.Shadow, func(b catalog.Shadow) bool { return b.Version == s.Version }) {
			all = append(all, s.Version)
		}
	}
	return all
}

// SetLabel makes a label name a version, which must be ready; 0 removes the label. by is who wants it. It applies at
// once, and outlives the process where there is a Config.Keeper. It holds until the manifest says something else of the
// label than before. The error is catalog.ErrUnknown, wrapped, a *catalog.NotReadyError, a *catalog.KeepError, or that
// the label cannot be one.
func (h *Host) SetLabel(name, label string, number int64, by string) error {
	if !modelrepo.ValidName(label) {
		return fmt.Errorf("%q cannot be a label: expected letters, digits, '.', '_' and '-', beginning with a letter "+
			"or digit", label)
	}
	return h.decide(name, false, func(m *residency.Model) (after decisions.Model, err error) {
		if _, ok := m.Decided.Labelled()[label]; number == 0 && !ok {
			return after, fmt.Errorf("remove label %q of model %q: %w", label, name, catalog.ErrUnknown)
		}
		if number != 0 {
			err = mustBeReady(m, number)
		}
		return m.Decided.Label(label, decisions.Label{Version: number, By: by, At: time.Now().UTC()}), err
	})
}
