// Package decisions keeps the decisions that operators and rollouts make about models at run time, so that they outlive
// the server, and determines which decision wins over which.
//
// Nothing here is locked but the Store: a Model is a value that is replaced, never changed.
package decisions

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Model holds the decisions about one model. The zero Model is one without any.
type Model struct {
	// Traffic is the wanted traffic, the last that was asked for, with its revision, whether a decision or model.yaml
	// asked for it. Nil: nobody asked for any.
	Traffic *catalog.Traffic `json:"traffic,omitempty"`
	// RolledBack are versions that do not answer for being the newest, ascending.
	RolledBack []catalog.RolledBack `json:"rolled_back,omitempty"`
	// Labels were set at run time, by name.
	Labels map[string]Label `json:"labels,omitempty"`
	// ByHand are the versions that were loaded or unloaded against versions.policy.
	ByHand map[int64]ByHand `json:"by_hand,omitempty"`
	// Unbatched are the files whose rows were found to meet in batches, the latest finding last.
	Unbatched []Unbatched `json:"unbatched,omitempty"`
	// Rollout is the latest one, whose meaning is that of package rollout, and RolloutRevision the traffic that it set
	// last.
	Rollout         json.RawMessage `json:"rollout,omitempty"`
	RolloutRevision uint64          `json:"rollout_revision,omitempty"`
	// Manifest is the content of model.yaml when all this was decided.
	Manifest Manifest `json:"manifest"`
}

// The sources of traffic that nobody decided at run time.
const (
	fromManifest = "model.yaml" // also the source when there is none any more
	byDefault    = "default"
)

// Label is a label that was set at run time.
type Label struct {
	Version int64     `json:"version"` // 0: it was removed
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at"`
}

// ByHand says that a version was loaded or unloaded at run time.
type ByHand struct {
	Loaded bool      `json:"loaded"` // false: unloaded
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// Unbatched says that a version was taken out of batching at run time.
type Unbatched struct {
	Version int64 `json:"version"`
	// Files is the digest of its files, whatever number or directory they have later.
	Files string `json:"files"`
	// Batching is Manifest.Batching of that time.
	Batching string    `json:"batching"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"`
}

// Manifest is the part of a model's manifest on matters that can be decided at run time.
type Manifest struct {
	Traffic *catalog.Traffic `json:"traffic,omitempty"` // nil: nothing
	Labels  map[string]int64 `json:"labels,omitempty"`
	Policy  string           `json:"policy,omitempty"` // versions.policy, in any form that differs where that does
	// Batching is what decides which batches there are and how they are run, in such a form. Each finding keeps its own.
	Batching string `json:"-"`
}

// Labelled returns the labels that were asked for last.
func (m Model) Labelled() map[string]int64 {
	all := maps.Clone(m.Manifest.Labels)
	if all == nil {
		all = map[string]int64{}
	}
	for label, decided := range m.Labels {
		if all[label] = decided.Version; decided.Version == 0 {
			delete(all, label)
		}
	}
	return all
}

// InForce returns the decisions of run time that are in force, as keys and values for the log; none where no decision
// is.
func (m Model) InForce() []any {
	var all []any
	if t := m.Traffic; t != nil && t.Source != fromManifest && t.Source != byDefault {
		all = append(all, "split", t.Split, "shadow", t.Shadow, "revision", t.Revision, "source", t.Source, "by", t.By,
			"at", t.At)
	}
	if len(m.RolledBack) > 0 {
		var versions []int64
		for _, r := range m.RolledBack {
			versions = append(versions, r.Version)
		}
		all = append(all, "rolled_back", versions)
	}
	if len(m.Unbatched) > 0 {
		var versions []int64
		for _, u := range m.Unbatched {
			versions = append(versions, u.Version)
		}
		all = append(all, "unbatched", versions)
	}
	if len(m.Labels) > 0 {
		versions := map[string]int64{} // 0: removed
		for label, l := range m.Labels {
			versions[label] = l.Version
		}
		all = append(all, "labels", versions)
	}
	for _, loaded := range []bool{true, false} {
		var versions []int64
		for _, version := range slices.Sorted(maps.Keys(m.ByHand)) {
			if m.ByHand[version].Loaded == loaded {
				versions = append(versions, version)
			}
		}
		if len(versions) > 0 {
			all = append(all, map[bool]string{true: "loaded_by_hand", false: "unloaded_by_hand"}[loaded], versions)
		}
	}
	return all
}

// Names reports whether a label, or a part of the traffic, that was decided at run time names the version. A manifest's
// own do not count: its policy selects the versions that it names.
func (m Model) Names(version int64) bool {
	for _, l := range m.Labels {
		if l.Version == version {
			return true
		}
	}
	return m.Traffic != nil && m.Traffic.Source != fromManifest &&
		(names(m.Traffic, version) ||
			slices.ContainsFunc(m.Traffic.Shadow, func(s catalog.Shadow) bool { return s.Version == version }))
}

// Highest returns the highest number of a version that a decision made at run time is about; 0: there is none. A new
// version does not get the number of one that was removed, for the decision would hold for it.
func (m Model) Highest() (highest int64) {
	for _, l := range m.Labels {
		highest = max(highest, l.Version)
	}
	for version := range m.ByHand {
		highest = max(highest, version)
	}
	for _, r := range m.RolledBack {
		highest = max(highest, r.Version)
	}
	if m.Traffic != nil && m.Traffic.Source != fromManifest {
		for _, s := range m.Traffic.Split {
			highest = max(highest, s.Version)
		}
		for _, s := range m.Traffic.Shadow {
			highest = max(highest, s.Version)
		}
	}
	return highest
}

// names reports whether the split of a traffic names the version.
func names(t *catalog.Traffic, version int64) bool {
	return slices.ContainsFunc(t.Split, func(s catalog.Slot) bool { return s.Version == version })
}
