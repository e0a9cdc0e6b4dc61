package residency

import (
	"fmt"
	"maps"
	"slices"
)

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
