package decisions

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// What wins over what is decided here and nowhere else, save that Newest of a catalog.Model passes over what was rolled
// back. The table for people is in docs/VERSIONS.md. In short: the last word on a matter holds, whoever spoke it, and a
// manifest speaks when what it says of the matter changes, also while no server runs.

// Follow returns what holds now that the manifest says this, and whether that is something else than before.
//
//   - Traffic that was decided holds as long as the manifest's traffic is what it was then. A change of that takes its
//     place, and gives those back that it names of the versions that were rolled back.
//   - A label that was set holds as long as the manifest says the same of that label.
//   - What was loaded and unloaded by hand holds as long as versions.policy is the same.
func (m Model) Follow(says Manifest, now time.Time) (next Model, changed bool) {
	next = m
	if m.Traffic == nil || !m.Manifest.Traffic.Divides(says.Traffic) {
		t := &catalog.Traffic{Source: byDefault, At: now}
		switch {
		case says.Traffic != nil:
			t.Source, t.Split, t.Shadow = fromManifest, says.Traffic.Split, says.Traffic.Shadow
		case m.Traffic != nil:
			t.By = fromManifest
		}
		next, changed = next.Divide(t), true
	}
	if m.Manifest.Policy != says.Policy && len(m.ByHand) > 0 {
		next.ByHand = nil
		changed = true
	}
	for label := range m.Labels {
		if before, now := m.Manifest.Labels[label], says.Labels[label]; before != now {
			next.Labels = maps.Clone(next.Labels)
			delete(next.Labels, label)
			changed = true
		}
	}
	next.Manifest = says
	return next, changed
}

// Divide returns what holds after the traffic was divided anew. t gets the next revision, and gives those back that it
// names of the versions that were rolled back: whoever wants one of them back names it.
func (m Model) Divide(t *catalog.Traffic) Model {
	if m.Traffic != nil {
		t.Revision = m.Traffic.Revision
	}
	t.Revision++
	m.Traffic = t
	m.RolledBack = slices.DeleteFunc(slices.Clone(m.RolledBack),
		func(r catalog.RolledBack) bool { return names(t, r.Version) })
	return m
}

// RollBack returns what holds after a version was rolled back. It is its number that is, whatever is in its directory.
func (m Model) RollBack(r catalog.RolledBack) Model {
	m.RolledBack = slices.DeleteFunc(slices.Clone(m.RolledBack),
		func(other catalog.RolledBack) bool { return other.Version == r.Version })
	m.RolledBack = append(m.RolledBack, r)
	slices.SortFunc(m.RolledBack, func(a, b catalog.RolledBack) int { return cmp.Compare(a.Version, b.Version) })
	return m
}

// Label returns what holds after a label was set; version 0 removes it.
func (m Model) Label(name string, l Label) Model {
	m.Labels = maps.Clone(m.Labels)
	if m.Labels == nil {
		m.Labels = map[string]Label{}
	}
	m.Labels[name] = l
	if l.Version == 0 && m.Manifest.Labels[name] == 0 {
		delete(m.Labels, name) // nobody else names it
	}
	return m
}
