package residency

import (
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// listed takes over a listing and publishes its immediate consequences: new models, their versions as loading, labels
// and traffic.
func (m *Machine) listed(e Listed) {
	m.report(e.Models)
	if m.closing {
		return
	}
	there := map[string]bool{}
	for i := range e.Models {
		l := &e.Models[i]
		there[l.Name] = true
		if model := m.meet(l); l.Elsewhere != nil {
			model.leave(l.Elsewhere)
		} else {
			m.adopt(model, l)
		}
	}
	for name, model := range m.models {
		if !there[name] && e.Gone {
			model.leave(nil)
		}
		m.touch(model, nil)
	}
}

// leave has nothing of the model be wanted: it is gone from the repository, or elsewhere.
func (m *Model) leave(elsewhere *catalog.ElsewhereError) {
	m.listed, m.found, m.Cause, m.Elsewhere = nil, nil, "", elsewhere
	for _, v := range m.Versions {
		v.giveUp()
	}
}

// meet returns the model of that name, a new one if it was not known.
func (m *Machine) meet(l *ListedModel) *Model {
	model := m.models[l.Name]
	if model == nil {
		model = newModel(l.Name, l.Recalled)
		model.asked = m.asked
		m.models[l.Name] = model
	}
	return model
}

// adopt takes over a model as the scan found it. The changes that manifests made to decisions are kept.
func (m *Machine) adopt(model *Model, l *ListedModel) {
	model.Cause, model.Elsewhere, model.found = "", nil, l.Model
	if l.Err != nil {
		// The manifest that was read before holds: a mistake in the manifest takes nothing down.
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
		switch v := model.Versions[found.Number]; {
		case found.Err != nil && (v == nil || v.State == Failed):
			model.showFault(found.Number)
		case v != nil && v.State == Ready:
			v.noteFault(&found, l)
		}
	}
	model.showWanted()
	if overruled && known {
		m.emit(Keep{model.Name, model.Decided})
	}
}

// showWanted shows versions that are to be loaded as loading.
func (m *Model) showWanted() {
	for _, c := range m.wanted() {
		if m.Versions[c.Version.Number] == nil {
			m.Versions[c.Version.Number] = &Version{Number: c.Version.Number, State: Loading, Of: c}
		}
	}
}

// noteFault notes that a version which serves cannot be loaded as it lies in the repository now, or can be again.
func (v *Version) noteFault(found *modelrepo.Version, l *ListedModel) {
	known := v.failure != nil && v.failure.of.Version.Err != nil
	switch {
	case errors.Is(found.Err, modelrepo.ErrCopying): // that passes
	case found.Err != nil && !(known && v.failure.cause.Error() == found.Err.Error()):
		v.failure = &failure{of: Candidate{Model: l.Name, Version: *found, Manifest: l.Settings(found)}, cause: found.Err}
		v.Cause = Hide(found.Err, l.Dir)
		v.Cause.Text = goesOn + v.Cause.Text
		v.touch()
	case found.Err == nil && known:
		v.failure, v.Cause = nil, nil
		v.touch()
	}
}

// says returns the part of a manifest on matters that can be decided at run time.
func says(m *modelrepo.Manifest) decisions.Manifest {
	said := decisions.Manifest{Labels: m.Versions.Labels, Batching: batchesOf(m)}
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
			said.Traffic.Split = append(said.Traffic.Split,
				catalog.Slot{Name: s.Slot, Version: s.Version, Weight: s.Weight})
		}
		for _, s := range t.Shadow {
			said.Traffic.Shadow = append(said.Traffic.Shadow, catalog.Shadow{
				Version: s.Version, Sample: s.Sample, PerRequest: s.Per == modelrepo.PerRequest, Tolerance: s.Tolerance,
				Tolerances: s.Tolerances,
			})
		}
	}
	return said
}

// Unlisted returns those versions that somebody loaded by override and for which a listing comes too early: it is older
// than they are, or takes them, or their latest change, for half a copy still. They stay as they are if their
// directories are there.
func (m *Model) Unlisted(listed *modelrepo.Model) (all []modelrepo.Version) {
	if m.listed == nil {
		return nil
	}
	for _, before := range m.listed.Versions {
		now := numbered(listed, before.Number)
		if m.overrides[before.Number].Loaded && (now == nil || now.Held || errors.Is(now.Err, modelrepo.ErrCopying)) {
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
