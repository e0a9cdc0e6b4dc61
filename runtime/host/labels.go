package host

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// labels are the names of a model's versions: what the manifest says, what was changed since, and what is published of it.
type labels struct {
	stated map[string]int64 // by the manifest, or written to it
	// written are earlier texts of the manifest that were written from here and that a listing may still show.
	written []map[string]int64
	wanted  map[string]int64
	public  map[string]int64 // replaced, never changed
}

// state takes what the manifest says. A label that was changed at run time stays so until the manifest says something else of it.
func (l *labels) state(stated map[string]int64) {
	for i, w := range slices.Backward(l.written) {
		if maps.Equal(w, stated) {
			l.written = slices.Delete(l.written, 0, i+1) // what was written before will not be shown any more
			return
		}
	}
	l.written = nil // somebody else wrote it, later
	for label, n := range stated {
		if before, ok := l.stated[label]; !ok || before != n {
			l.set(label, n)
		}
	}
	for label := range l.stated {
		if _, ok := stated[label]; !ok {
			delete(l.wanted, label)
		}
	}
	l.stated = maps.Clone(stated)
}

// set gives a version a label, or removes the label where the number is 0.
func (l *labels) set(label string, number int64) {
	if number == 0 {
		delete(l.wanted, label)
		return
	}
	if l.wanted == nil {
		l.wanted = map[string]int64{}
	}
	l.wanted[label] = number
}

// wrote notes that the manifest holds these labels now.
func (l *labels) wrote(labels map[string]int64) {
	const most = 16 // far more writes than happen between two scans
	if maps.Equal(labels, l.stated) {
		return // nothing was written, so that no listing will tell of it
	}
	l.written = append(l.written, labels)
	if len(l.written) > most {
		l.written = slices.Delete(l.written, 0, 1)
	}
	l.stated = labels
}

// resolve derives what is published: a label stays with its version while the one that it is to name is not ready.
func (l *labels) resolve(ready func(int64) bool) {
	next := map[string]int64{}
	for label, n := range l.wanted {
		if before, ok := l.public[label]; ok && !ready(n) && ready(before) {
			n = before
		}
		next[label] = n
	}
	if !maps.Equal(next, l.public) {
		l.public = next
	}
}

// naming returns the labels, wanted or published, that name the version.
func (l *labels) naming(number int64) []string {
	var names []string
	for _, m := range []map[string]int64{l.wanted, l.public} {
		for label, n := range m {
			if n == number {
				names = append(names, fmt.Sprintf("label %q", label))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SetLabel makes a label name a version, which must be ready; 0 removes the label. It applies at once, and is written to the
// model's manifest where that is possible; otherwise why says why not, and the change is lost when the server ends. It holds
// until the manifest says something else of the label than before. The error is catalog.ErrUnknown, wrapped, a *catalog.NotReadyError, or that
// the label cannot be one.
func (h *Host) SetLabel(name, label string, number int64) (persisted bool, why string, err error) {
	if !modelrepo.ValidName(label) {
		return false, "", fmt.Errorf("%q cannot be a label: expected letters, digits, '.', '_' and '-', beginning with a letter or digit", label)
	}
	h.manifests.Lock()
	defer h.manifests.Unlock()
	var listed *modelrepo.Model
	var all map[string]int64
	h.update(func() bool {
		m := h.models[name]
		switch {
		case m == nil:
			err = fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
		case number == 0:
			if _, ok := m.labels.wanted[label]; !ok {
				err = fmt.Errorf("remove label %q of model %q: %w", label, name, catalog.ErrUnknown)
			}
		default:
			err = m.mustBeReady(name, number)
		}
		if err != nil {
			return false
		}
		m.labels.set(label, number)
		listed, all = m.listed, maps.Clone(m.labels.wanted)
		return true
	})
	if err != nil {
		return false, "", err
	}
	h.settleLater(name) // a version that nothing names any more may go
	if why = h.writeLabels(name, listed, all); why != "" {
		h.log.Warn("a label is not written to the manifest", "model", name, "label", label, "version", number, "cause", why)
	}
	return why == "", why, nil
}

// writeLabels writes labels to the model's manifest, or returns why it does not.
func (h *Host) writeLabels(name string, listed *modelrepo.Model, all map[string]int64) (why string) {
	if listed == nil {
		return "the model cannot be read from the repository any more"
	}
	for _, label := range slices.Sorted(maps.Keys(all)) {
		n := all[label]
		allowed := listed.Selected
		if listed.Manifest.Versions.Policy.Latest > 0 {
			allowed = listed.Versions // being named is enough to be selected
		}
		if !slices.ContainsFunc(allowed, func(v modelrepo.Version) bool { return v.Number == n && v.Err == nil }) {
			return fmt.Sprintf("label %q names version %d, which versions.policy does not select or which is gone, so that it would be in vain", label, n)
		}
	}
	if err := modelrepo.WriteLabels(listed, all); err != nil {
		return err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.models[name]; m != nil {
		m.labels.wrote(all)
	}
	return ""
}
