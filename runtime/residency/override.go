package residency

import (
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Lookup returns a model of a listing if it has the version, else nil. The error is a *catalog.LoadError: the version
// in the repository cannot be served; or a *catalog.ElsewhereError.
func Lookup(l modelrepo.Listing, name string, number int64) (*modelrepo.Model, error) {
	for _, found := range l.Models {
		if found.Name != name {
			continue
		}
		if found.Elsewhere != nil {
			return nil, found.Elsewhere
		}
		if found.Err != nil {
			return nil, &catalog.LoadError{Model: name, Version: number, Cause: Hide(found.Err, found.Dir)}
		}
		v := numbered(&found, number)
		switch {
		case v == nil:
		case v.Err != nil:
			return nil, &catalog.LoadError{Model: name, Version: number, Cause: Hide(v.Err, found.Dir)}
		default:
			return &found, nil
		}
	}
	return nil, nil
}

// MayOverride returns why a version cannot be loaded or unloaded by override, nil if it can: catalog.ErrUnknown,
// wrapped, a *catalog.LoadError or a *catalog.InUseError. found is the model as it was looked at for a load, nil if it
// was not; m may be nil: it is not known.
func (m *Model) MayOverride(found *modelrepo.Model, number int64, load bool) error {
	if load {
		return m.mayLoad(found, number)
	}
	if m == nil || m.Versions[number] == nil {
		return catalog.ErrUnknown
	}
	if by := m.NamedBy(number); len(by) > 0 && m.Versions[number].Resident != nil {
		return &catalog.InUseError{Model: m.Name, Version: number, By: by}
	}
	return nil
}

func (m *Model) mayLoad(found *modelrepo.Model, number int64) error {
	listed := found
	if m != nil && m.listed != nil {
		if listed = m.listed; found != nil {
			listed = with(listed, *numbered(found, number))
		}
	}
	if listed == nil {
		return catalog.ErrUnknown
	}
	switch v := numbered(listed, number); {
	case v == nil:
		var there []int64
		for _, v := range listed.Versions {
			there = append(there, v.Number)
		}
		return fmt.Errorf("%w; the repository has %d of the model", catalog.ErrUnknown, there)
	case v.Err != nil:
		return &catalog.LoadError{Model: listed.Name, Version: number, Cause: Hide(v.Err, listed.Dir)}
	}
	return nil
}

// overridden notes that somebody loads or unloads a version by override. That also counts where the policy says the
// same now: a later listing may select other versions.
func (m *Machine) overridden(e Overridden) {
	if m.closing {
		return
	}
	model := m.models[e.Model]
	if e.Found != nil {
		model = m.meet(e.Found)
		if model.listed == nil {
			m.adopt(model, e.Found)
		} else { // Everything else is left to listings, which show no half of a change.
			model.listed = with(model.listed, *numbered(e.Found.Model, e.Number))
		}
	}
	if model == nil {
		return
	}
	v := model.Versions[e.Number]
	if v != nil {
		if v.before = nil; !v.override {
			if said, is := model.overrides[e.Number]; is {
				v.before = &said
			}
		}
	}
	if model.listed != nil && numbered(model.listed, e.Number) != nil {
		model.overrides[e.Number] = decisions.ByHand{Loaded: e.Load, By: e.By, At: m.now.UTC()}
	} // else it is gone from disk, and does not come back anyway
	if e.Load {
		model.waiting[e.Number]++
	}
	if v != nil {
		v.override = !e.Load
		if v.failure != nil {
			v.failure.due = true
		}
		if !e.Load {
			v.giveUp()
		}
	}
	m.touch(model, nil)
}

// gaveUp notes that a caller waits no more for a version that it loads by override. If it failed and nothing serves,
// the last of them gives it up.
func (m *Machine) gaveUp(e GaveUp) {
	model := m.models[e.Model]
	if model == nil {
		return
	}
	last := model.waiting[e.Number] <= 1
	if model.waiting[e.Number]--; last {
		delete(model.waiting, e.Number)
	}
	if v := model.Versions[e.Number]; e.Failed && last && v != nil && v.Resident == nil && v.failure != nil {
		delete(model.overrides, e.Number)
		if !model.selected(e.Number) && !model.isStep(&v.Of.Version) {
			v.giveUp()
		}
		m.touch(model, nil)
	}
	m.visit[e.Model] = true
}

// LoadOutcome reports whether the outcome of a load by override is decided, and the outcome: nil, catalog.ErrUnknown,
// catalog.ErrBusy if somebody unloads the version, or how it failed.
func (m *Model) LoadOutcome(number int64) (over bool, failed *Candidate, _ error) {
	if m == nil || m.listed == nil {
		return true, nil, catalog.ErrUnknown
	}
	c := m.Want(number)
	if c == nil {
		return true, nil, catalog.ErrBusy
	}
	v := m.Versions[number]
	switch {
	case v != nil && v.State != Draining && v.current(c):
		return true, nil, nil
	case v == nil || m.running > 0 && (v.State == Loading || v.State == Replacing || v.State == Draining),
		v.failure == nil || v.failure.due || !v.failure.of.alike(c):
		return false, nil, nil
	}
	return true, &v.failure.of, v.failure.cause
}

// Found reports whether the latest listing has a version. The error is a *catalog.LoadError: it cannot be served, or
// not yet, which modelrepo.ErrCopying says. m may be nil.
func (m *Model) Found(number int64) (bool, error) {
	if m == nil || m.found == nil {
		return false, nil
	}
	found, err := Lookup(modelrepo.Listing{Models: []modelrepo.Model{*m.found}}, m.Name, number)
	return found != nil, err
}

// UnloadOutcome reports whether the outcome of an unload by override is decided, and the outcome: nil if the version is
// gone, a *catalog.InUseError, or catalog.ErrBusy if somebody loads it.
func (m *Model) UnloadOutcome(number int64) (over bool, _ error) {
	if m == nil || m.Versions[number] == nil {
		return true, nil
	}
	switch v := m.Versions[number]; {
	case v.override, v.State == Draining:
		return false, nil
	case v.Resident == nil && v.State == Failed: // it is shown as it lies in the repository
		return true, nil
	default:
		if by := m.NamedBy(number); len(by) > 0 {
			return true, &catalog.InUseError{Model: m.Name, Version: number, By: by}
		}
		return true, catalog.ErrBusy
	}
}

// dropOverrides withdraws wishes to unload a version by override that requests were led to by name in the meantime.
func (m *Machine) dropOverrides(model *Model) {
	for n, v := range model.Versions {
		if v.override && v.Resident != nil && len(model.NamedBy(n)) > 0 {
			m.withdraw(model, v)
		}
	}
}

// withdraw undoes a wish to unload a version by override.
func (m *Machine) withdraw(model *Model, v *Version) {
	v.override = false
	if delete(model.overrides, v.Number); v.before != nil {
		model.overrides[v.Number] = *v.before
	}
	m.touch(model, nil) // for a caller that waits
}

// withdrawn handles a caller that does not wait any longer until a version is drained.
func (m *Machine) withdrawn(e Withdrawn) {
	model := m.models[e.Model]
	if model == nil || model.Versions[e.Number] == nil {
		return
	}
	if v := model.Versions[e.Number]; v.override && v.State != Draining {
		m.withdraw(model, v)
	}
}
