package residency

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
)

// division is the published state of a model's traffic. The wanted traffic, the last that was asked for, is
// Model.Decided.Traffic.
type division struct {
	// the wanted one, or the one wanted before while that works and the wanted one does not yet
	Public   *catalog.Traffic
	WaitsFor []int64          // versions that must become ready before the wanted traffic is published
	waiting  *catalog.Traffic // the wanted one while it waits, else nil
	deciding bool             // a decision is being kept: Public stays as its author saw it
}

// resolve publishes the wanted traffic when every version of its split is ready, so that no request is led to a version
// that is not there yet, or at once where the traffic that was published before does not answer either. The published
// traffic stays as it is when a version of it stops being ready: routing leads its requests elsewhere and says so. It
// returns the outcome of a wish of the manifest.
func (d *division) resolve(m *Model) (all []Log) {
	wanted := m.Decided.Traffic
	if d.deciding {
		return nil
	}
	if d.waiting != nil && d.waiting != wanted {
		all = append(all, Log{slog.LevelInfo, "manifest traffic dropped", []any{
			"event", "manifest_traffic_dropped", "model", m.Name, "waited_for", d.WaitsFor,
			"replaced_by", wanted.Source,
		}})
	}
	before := d.WaitsFor
	d.waiting, d.WaitsFor = nil, nil
	switch {
	case d.Public == wanted:
	case m.serves(wanted, true) || !m.serves(d.Public, false):
		d.Public = wanted
		all = append(all, Log{slog.LevelInfo, "manifest traffic in force", []any{
			"event", "manifest_traffic_in_force", "model", m.Name, "split", wanted.Split, "shadow", wanted.Shadow,
			"revision", wanted.Revision,
		}})
	default:
		d.waiting, d.WaitsFor = wanted, m.unready(wanted)
		if !slices.Equal(before, d.WaitsFor) {
			all = append(all, Log{slog.LevelInfo, "manifest traffic waits for versions", []any{
				"event", "manifest_traffic_waits", "model", m.Name, "waits_for", d.WaitsFor,
			}})
		}
	}
	return all
}

// unready returns the versions that a traffic leads to and that are not ready, ascending.
func (m *Model) unready(t *catalog.Traffic) (numbers []int64) {
	for _, s := range t.Split {
		if !m.Ready(s.Version) {
			numbers = append(numbers, s.Version)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// serves reports whether a traffic leads to a version that is ready or, if all is set, to none that is not.
func (m *Model) serves(t *catalog.Traffic, all bool) bool {
	if len(t.Split) == 0 { // the newest answers, whichever is ready
		return all || slices.ContainsFunc(slices.Collect(maps.Keys(m.Versions)), m.Ready)
	}
	for _, s := range t.Split {
		switch ready := m.Ready(s.Version); {
		case all && !ready:
			return false
		case !all && ready: // also without weight, as the last resort
			return true
		}
	}
	return all
}

// naming returns the part of the traffic, wanted or published, that names the version.
func (d *division) naming(wanted *catalog.Traffic, number int64) []string {
	var names []string
	for _, t := range []*catalog.Traffic{wanted, d.Public} {
		for _, s := range t.Split {
			if s.Version == number {
				names = append(names, fmt.Sprintf("slot %q of the traffic", s.Name))
			}
		}
		for _, s := range t.Shadow {
			if s.Version == number {
				names = append(names, "a shadow of the traffic")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolveLabels derives which labels are published: a label stays with its version while the one that it is to name is
// not ready.
func (m *Model) resolveLabels() {
	next := map[string]int64{}
	for label, n := range m.Decided.Labelled() {
		if before, ok := m.Labels[label]; ok && !m.Ready(n) && m.Ready(before) {
			n = before
		}
		next[label] = n
	}
	if !maps.Equal(next, m.Labels) {
		m.Labels = next
	}
}

// labelsNaming returns the labels, wanted or published, that name the version.
func (m *Model) labelsNaming(number int64) []string {
	var names []string
	for _, all := range []map[string]int64{m.Decided.Labelled(), m.Labels} {
		for label, n := range all {
			if n == number {
				names = append(names, fmt.Sprintf("label %q", label))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
