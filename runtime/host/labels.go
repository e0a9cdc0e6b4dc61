package host

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// resolveLabels derives which labels are published: a label stays with its version while the one that it is to name is not ready.
func (m *model) resolveLabels() {
	next := map[string]int64{}
	for label, n := range m.decided.Labelled() {
		if before, ok := m.labels[label]; ok && !m.ready(n) && m.ready(before) {
			n = before
		}
		next[label] = n
	}
	if !maps.Equal(next, m.labels) {
		m.labels = next
	}
}

// labelsNaming returns the labels, wanted or published, that name the version.
func (m *model) labelsNaming(number int64) []string {
	var names []string
	for _, all := range []map[string]int64{m.decided.Labelled(), m.labels} {
		for label, n := range all {
			if n == number {
				names = append(names, fmt.Sprintf("label %q", label))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SetLabel makes a label name a version, which must be ready; 0 removes the label. by is who wants it. It applies at once, and outlives
// the process where there is a Config.Keeper. It holds until the manifest says something else of the label
// than before. The error is catalog.ErrUnknown, wrapped, a *catalog.NotReadyError, a *catalog.KeepError, or that the label cannot be one.
func (h *Host) SetLabel(name, label string, number int64, by string) error {
	if !modelrepo.ValidName(label) {
		return fmt.Errorf("%q cannot be a label: expected letters, digits, '.', '_' and '-', beginning with a letter or digit", label)
	}
	err := h.decide(name, false, func(m *model) (after decisions.Model, err error) {
		if _, ok := m.decided.Labelled()[label]; number == 0 && !ok {
			return after, fmt.Errorf("remove label %q of model %q: %w", label, name, catalog.ErrUnknown)
		}
		if number != 0 {
			err = m.mustBeReady(name, number)
		}
		return m.decided.Label(label, decisions.Label{Version: number, By: by, At: time.Now().UTC()}), err
	})
	if err == nil {
		h.settleLater(name) // a version that nothing names any more may go
	}
	return err
}
