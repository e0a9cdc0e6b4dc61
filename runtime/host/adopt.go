package host

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// adopt takes over what a listing says and publishes what follows of it at once: new models, their versions as loading, labels
// and traffic. It returns the names of the models that it knows then, sorted; none if the host is closed. gone: models that the
// listing does not have are given up.
func (h *Host) adopt(l modelrepo.Listing, gone bool) (names []string) {
	h.update(func() bool {
		if h.closed {
			return false
		}
		listed := map[string]bool{}
		for i := range l.Models {
			name := l.Models[i].Name
			listed[name] = true
			m := h.models[name]
			if m == nil {
				m = newModel()
				h.models[name] = m
			}
			m.adopt(&l.Models[i])
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
		return true
	})
	return names
}

// adopt takes over what a listing says of the model.
func (m *model) adopt(listed *modelrepo.Model) {
	m.cause = ""
	if listed.Err != nil {
		// What was read before holds: a slip in the manifest takes nothing down.
		m.cause = listed.Err.Error()
		return
	}
	if m.listed != nil && !reflect.DeepEqual(m.listed.Manifest.Versions.Policy, listed.Manifest.Versions.Policy) {
		clear(m.byHand)
	}
	m.listed = m.keepByHand(listed)
	m.labels.state(listed.Manifest.Versions.Labels)
	m.traffic.state(listed.Manifest.Traffic)
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
}

// unusable is what is published of a version that cannot be served as it lies in the repository; nil if it can, or is not there.
func unusable(listed *modelrepo.Model, number int64) *catalog.Version {
	v := numbered(listed, number)
	if v == nil || v.Err == nil {
		return nil
	}
	return &catalog.Version{Model: listed.Name, Number: number, Path: v.Dir, State: catalog.Failed, Cause: v.Err.Error()}
}

// announced is what is published of a version before it was opened.
func (c *candidate) announced() *catalog.Version {
	v := &catalog.Version{Model: c.model, Number: c.version.Number, Path: c.path(), State: catalog.Loading}
	describe(v, c.manifest, verdict{})
	v.Batching = catalog.Batching{}
	return v
}

// cannotTell reports whether a listing misses models for another reason than that they were removed: a directory that is not
// mounted looks like an empty one.
func cannotTell(l modelrepo.Listing) bool {
	return slices.ContainsFunc(l.Faults, func(err error) bool { return errors.Is(err, modelrepo.ErrNoRepository) })
}
