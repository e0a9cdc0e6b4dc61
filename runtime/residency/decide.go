package residency

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
)

// Decide returns the decisions about the model after a decision that is made now, or why it cannot be made: a
// *catalog.RevisionError or a *catalog.NotReadyError. next is the traffic of the decision as it is to be published, nil
// if that stays.
func (m *Model) Decide(d catalog.Decision, next *catalog.Traffic, now time.Time) (after decisions.Model, err error) {
	after = m.Decided
	if next != nil {
		if err := m.mayDivide(next, d.Expected); err != nil {
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

// Relabel returns the decisions about the model once a label names another version, or none if that is 0. The error is
// a *catalog.NotReadyError, or catalog.ErrUnknown, wrapped, if there is no label to remove.
func (m *Model) Relabel(label string, to decisions.Label) (decisions.Model, error) {
	if _, ok := m.Decided.Labelled()[label]; to.Version == 0 && !ok {
		return m.Decided, fmt.Errorf("remove label %q of model %q: %w", label, m.Name, catalog.ErrUnknown)
	}
	if to.Version != 0 {
		if err := m.mustBeReady(to.Version); err != nil {
			return m.Decided, err
		}
	}
	return m.Decided.Label(label, to), nil
}

// KeepOverride returns the decisions about the model with the override of a version, and whether that is new. A load
// counts when it succeeded: a version that may take the process down is not tried again by the next one.
func (m *Model) KeepOverride(number int64) (after decisions.Model, news bool) {
	now, said := m.overrides[number]
	before, was := m.Decided.ByHand[number]
	if said == was && now.Loaded == before.Loaded || now.Loaded && !m.Ready(number) {
		return m.Decided, false
	}
	after = m.Decided
	if after.ByHand = maps.Clone(after.ByHand); after.ByHand == nil {
		after.ByHand = map[int64]decisions.ByHand{}
	}
	if after.ByHand[number] = now; !said {
		delete(after.ByHand, number)
	}
	return after, true
}

// mayDivide returns why the traffic may not be divided so.
func (m *Model) mayDivide(next *catalog.Traffic, expected uint64) error {
	now := m.Traffic.Public
	// First: a caller that did not see the last change may name a version that the change gave up.
	if expected != 0 && expected != now.Revision {
		return &catalog.RevisionError{Model: m.Name, Current: now.Revision, Expected: expected}
	}
	for _, n := range newVersionsOf(next, now) {
		if err := m.mustBeReady(n); err != nil {
			return err
		}
	}
	return nil
}

// mustBeReady returns a *catalog.NotReadyError unless the version takes requests.
func (m *Model) mustBeReady(number int64) error {
	if m.Ready(number) {
		return nil
	}
	err := &catalog.NotReadyError{Model: m.Name, Version: number, Cause: m.Cause}
	if v := m.Versions[number]; v != nil {
		err.State, err.Cause = v.State.Public(), ""
		if v.Cause != nil {
			err.Cause = v.Cause.Text
		}
	}
	return err
}

// newVersionsOf returns the versions that a traffic leads to or has in the shadow, and before did not.
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
