package residency

import (
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// listed takes over a listing and has published what follows of it at once: new models, their versions as loading, labels and traffic.
func (m *Machine) listed(e Listed) {
	if m.closing {
		return
	}
	there := map[string]bool{}
	for i := range e.Models {
		l := &e.Models[i]
		there[l.Name] = true
		m.adopt(m.meet(l), l)
	}
	for name, model := range m.models {
		if !there[name] && e.Gone {
			model.listed, model.Cause = nil, ""
			for _, v := range model.Versions {
				v.giveUp()
			}
		}
		m.touch(model, nil)
	}
}

// meet returns the model of that name, a new one if it was not known.
func (m *Machine) meet(l *ListedModel) *Model {
	model := m.models[l.Name]
	if model == nil {
		model = newModel(l.Name, l.Recalled)
		m.models[l.Name] = model
	}
	return model
}

// adopt takes over what was found of a model. What manifests changed about decisions is kept.
func (m *Machine) adopt(model *Model, l *ListedModel) {
	model.Cause = ""
	if l.Err != nil {
		// What was read before holds: a slip in the manifest takes nothing down.
		model.Cause = Hide(l.Err, l.Dir).Text
		return
	}
	known := model.Kept || model.listed != nil // else it is no change, but the first that is heard
	said := says(&l.Manifest)
	if model.Decided.Manifest.Policy != said.Policy {
		clear(model.overrides)
	}
	model.listed = model.keepOverridden(l)
	var overruled bool
	model.Decided, overruled = model.Decided.Follow(said, m.now.UTC())
	model.Kept = model.Kept || overruled && known
	for _, found := range model.listed.Versions {
		if v := model.Versions[found.Number]; found.Err != nil && (v == nil || v.State == Failed) {
			model.showFault(found.Number)
		}
	}
	for _, c := range model.wanted() {
		if model.Versions[c.Version.Number] == nil {
			model.Versions[c.Version.Number] = &Version{Number: c.Version.Number, State: Loading, Of: c}
		}
	}
	if overruled && known {
		m.emit(Keep{model.Name, model.Decided})
	}
}

// says returns what a manifest says about what can be decided at run time.
func says(m *modelrepo.Manifest) decisions.Manifest {
	said := decisions.Manifest{Labels: m.Versions.Labels}
	switch p := m.Versions.Policy; {
	case p.All:
		said.Policy = "all"
	case p.Specific != nil:
		said.Policy = fmt.Sprint("specific ", p.Specific)
	default:
		said.Policy = fmt.Sprint("latest ", p.Latest)
	}
	if t := m.Traffic; t != nil {
		said.Traffic = &catalog.Traffic{Source: "model.yaml"}
		for _, s := range t.Split {
			said.Traffic.Split = append(said.Traffic.Split, catalog.Slot{Name: s.Slot, Version: s.Version, Weight: s.Weight})
		}
		for _, s := range t.Shadow {
			said.Traffic.Shadow = append(said.Traffic.Shadow, catalog.Shadow{
				Version: s.Version, Sample: s.Sample, PerRequest: s.Per == modelrepo.PerRequest, Tolerance: s.Tolerance, Tolerances: s.Tolerances,
			})
		}
	}
	return said
}

// Unlisted returns those versions that somebody loaded by hand and for which a listing comes too early: it is older than they are, or
// takes them for half a copy still. They stay if their directories are there.
func (m *Model) Unlisted(listed *modelrepo.Model) (all []modelrepo.Version) {
	if m.listed == nil {
		return nil
	}
	for _, before := range m.listed.Versions {
		now := numbered(listed, before.Number)
		if m.overrides[before.Number].Loaded && (now == nil || errors.Is(now.Err, modelrepo.ErrCopying)) {
			all = append(all, before)
		}
	}
	return all
}

// keepOverridden returns the listing with those unlisted versions as they were known before that are still there.
func (m *Model) keepOverridden(l *ListedModel) *modelrepo.Model {
	listed := l.Model
	for _, before := range m.Unlisted(listed) {
		if l.Present[before.Dir] {
			listed = with(listed, before)
		}
	}
	return listed
}

// MayOverride returns why a version cannot be loaded or unloaded by hand, nil if it can: catalog.ErrUnknown, wrapped, or a
// *catalog.LoadError. found is the model as it was looked at for that, nil if it was not; m may be nil if it is not.
func (m *Model) MayOverride(found *modelrepo.Model, number int64, load bool) error {
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
	case v.Err != nil && load:
		return &catalog.LoadError{Model: listed.Name, Version: number, Cause: Hide(v.Err, listed.Dir)}
	}
	return nil
}

// overridden notes that somebody loads or unloads a version by hand. That also counts where the policy says the same now: a later listing
// may select other versions.
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

// gaveUp notes that a caller waits no more for a version that it loads by hand. If it failed and nothing serves, the last of them gives
// it up.
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
		if !model.selected(e.Number) {
			v.giveUp()
		}
	}
	m.visit[e.Model] = true
}

// LoadOutcome reports whether it is decided what becomes of a version that somebody loads by hand, and what: nil, catalog.ErrUnknown,
// catalog.ErrBusy if somebody unloads it, or how it failed.
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

// UnloadOutcome reports whether it is decided what becomes of a version that somebody unloads by hand, and what: nil if it is gone, a
// *catalog.InUseError, or catalog.ErrBusy if somebody loads it.
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
		if by := m.namedBy(number); len(by) > 0 {
			return true, &catalog.InUseError{Model: m.Name, Version: number, By: by}
		}
		return true, catalog.ErrBusy
	}
}
