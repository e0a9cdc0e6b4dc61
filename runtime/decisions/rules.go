package decisions

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Which decision wins over which is determined here and nowhere else, except that Newest of a catalog.Model passes
// over versions that were rolled back. The table for people is in docs/reference/state-directory.md. In short: the
// last word on a matter holds, whatever its source, and a manifest speaks when its content on the matter changes,
// also while no server runs.

// Follow returns the decisions in force under this manifest, and whether they differ from those before.
//
//   - Traffic that was decided holds as long as the manifest's traffic is the same as then. A change of the manifest's
//     traffic takes its place, and gives back those rolled-back versions that it names.
//   - A label that was set holds as long as the manifest says the same of that label.
//   - Loads and unloads by override hold as long as versions.policy is the same.
//   - What was found about batches holds as long as the manifest asks for the same batches.
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
	next.Unbatched = slices.DeleteFunc(slices.Clone(m.Unbatched),
		func(u Unbatched) bool { return u.Batching != says.Batching })
	changed = changed || len(next.Unbatched) < len(m.Unbatched)
	next.Manifest = says
	return next, changed
}

// maxUnbatched is how many findings are kept of a model. The oldest is forgotten.
const maxUnbatched = 64

// Unbatch returns the decisions in force after a version was taken out of batching, and whether that is news.
func (m Model) Unbatch(u Unbatched) (next Model, news bool) {
	if slices.ContainsFunc(m.Unbatched,
		func(known Unbatched) bool { return known.Files == u.Files && known.Batching == u.Batching }) {
		return m, false
	}
	m.Unbatched = append(slices.Clone(m.Unbatched[max(0, len(m.Unbatched)-maxUnbatched+1):]), u)
	return m, true
}

// Divide returns the decisions in force after the traffic was divided again. t gets the next revision, and gives back
// those rolled-back versions that it names: an operator who wants one of them back names it.
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

// RollBack returns the decisions in force after a version was rolled back. The number is rolled back, whatever is in
// the version's directory.
func (m Model) RollBack(r catalog.RolledBack) Model {
	m.RolledBack = slices.DeleteFunc(slices.Clone(m.RolledBack),
		func(other catalog.RolledBack) bool { return other.Version == r.Version })
	m.RolledBack = append(m.RolledBack, r)
	slices.SortFunc(m.RolledBack, func(a, b catalog.RolledBack) int { return cmp.Compare(a.Version, b.Version) })
	return m
}

// Label returns the decisions in force after a label was set; version 0 removes it.
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
