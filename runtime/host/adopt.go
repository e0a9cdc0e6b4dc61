package host

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
)

// adopt takes over what a listing says and publishes what follows of it at once: new models, their versions as loading, labels
// and traffic. It returns the names of the models that it knows then, sorted; none if the host is closed. gone: models that the
// listing does not have are given up.
func (h *Host) adopt(l modelrepo.Listing, gone bool) (names []string) {
	h.deciding.Lock()
	defer h.deciding.Unlock()
	overruled := map[string]decisions.Model{}
	h.updateSeveral(func() ([]string, bool) {
		if h.closed {
			return nil, false
		}
		listed := map[string]bool{}
		for i := range l.Models {
			name := l.Models[i].Name
			listed[name] = true
			m := h.models[name]
			if m == nil {
				m = h.recalled(name)
				h.models[name] = m
			}
			if m.adopt(&l.Models[i]) {
				overruled[name] = m.decided
			}
		}
		for name, m := range h.models {
			if listed[name] || !gone {
				continue
			}
			m.listed, m.cause = nil, ""
			for _, e := range m.versions {
				e.failure.stop()
			}
		}
		names = slices.Sorted(maps.Keys(h.models))
		return names, true
	})
	h.keepOverruled(overruled)
	return names
}

// keepOverruled keeps what is left of decisions after manifests spoke. The caller holds Host.deciding.
func (h *Host) keepOverruled(all map[string]decisions.Model) {
	for name, after := range all {
		_ = h.keepDecision(name, after) // it is logged; should the next start not notice the change either, that is the worst of it
	}
}

// adopt takes over what a listing says of the model, and reports whether that changed something that is to be kept.
func (m *model) adopt(listed *modelrepo.Model) (overruled bool) {
	m.cause = ""
	if listed.Err != nil {
		// What was read before holds: a slip in the manifest takes nothing down.
		m.cause = hide(listed.Err, listed.Dir).Text
		return false
	}
	known := m.kept || m.listed != nil // else it is no change, but the first that is heard
	said := says(&listed.Manifest)
	if m.decided.Manifest.Policy != said.Policy {
		clear(m.byHand)
	}
	m.listed = m.keepByHand(listed)
	m.decided, overruled = m.decided.Follow(said, time.Now().UTC())
	m.kept = m.kept || overruled && known
	for _, v := range m.listed.Versions {
		if e := m.versions[v.Number]; v.Err != nil && (e == nil || e.public.State == catalog.Failed) {
			if e != nil {
				e.failure.stop()
			}
			m.versions[v.Number] = &entry{public: unusable(m.listed, v.Number)}
		}
	}
	for _, c := range m.wanted() {
		if e := m.versions[c.version.Number]; e == nil {
			m.versions[c.version.Number] = &entry{public: c.announced()}
		}
	}
	return overruled && known
}

// unusable is what is published of a version that cannot be served as it lies in the repository; nil if it can, or is not there.
func unusable(listed *modelrepo.Model, number int64) *catalog.Version {
	v := numbered(listed, number)
	if v == nil || v.Err == nil {
		return nil
	}
	fault := hide(v.Err, listed.Dir)
	return &catalog.Version{Model: listed.Name, Number: number, Path: v.Dir, State: catalog.Failed, Cause: fault.Text, Fault: fault}
}

// hide returns an error of which callers are told no path of this machine: files of the repository are named from there on. dir is that
// of the model that the error is of.
func hide(err error, dir string) *catalog.Hidden { return catalog.Hide(err, filepath.Dir(dir)) }

// announced is what is published of a version before it was opened.
func (c *candidate) announced() *catalog.Version {
	v := &catalog.Version{Model: c.model, Number: c.version.Number, Path: c.path(), State: catalog.Loading}
	describe(v, c.manifest, proof.Verdict{})
	v.Batching = catalog.Batching{}
	return v
}

// cannotTell reports whether a listing misses models for another reason than that they were removed: a directory that is not
// mounted looks like an empty one.
func cannotTell(l modelrepo.Listing) bool {
	return slices.ContainsFunc(l.Faults, func(err error) bool { return errors.Is(err, modelrepo.ErrNoRepository) })
}
