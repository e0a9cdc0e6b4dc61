package host

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// update changes the models and publishes what they are afterwards, unless change says that nothing did.
func (h *Host) update(change func() bool) {
	h.mu.Lock()
	if !change() {
		h.mu.Unlock()
		return
	}
	s := &catalog.Snapshot{Revision: h.snapshot.Load().Revision + 1}
	byID := map[sharedsched.VersionID]*version{}
	for _, name := range slices.Sorted(maps.Keys(h.models)) {
		m := h.models[name]
		public := &catalog.Model{Name: name, Cause: m.cause, Labels: m.labels}
		for _, e := range m.versions {
			public.Versions = append(public.Versions, e.public)
			if e.resident != nil {
				byID[e.resident.id] = e.resident
			}
		}
		slices.SortFunc(public.Versions, func(a, b *catalog.Version) int { return cmp.Compare(a.Number, b.Number) })
		s.Models = append(s.Models, public)
	}
	h.byID.Store(&byID)
	h.snapshot.Store(s)
	h.mu.Unlock()
	h.notify()
}

// updateVersion publishes a version that differs from the present one in what change does to it.
func (h *Host) updateVersion(name string, number int64, change func(*entry, *catalog.Version)) {
	h.update(func() bool {
		e := h.models[name].versions[number]
		next := *e.public
		change(e, &next)
		e.public = &next
		return true
	})
}

// notify tells OnChange of the newest snapshot.
func (h *Host) notify() {
	if h.cfg.OnChange == nil {
		return
	}
	h.notifyMu.Lock()
	defer h.notifyMu.Unlock()
	h.cfg.OnChange(h.snapshot.Load())
}

// resident returns the version that a published one stands for, or nil when it is gone.
func (h *Host) resident(v *catalog.Version) *version {
	r := (*h.byID.Load())[sharedsched.VersionID(v.Scheduler)]
	if r == nil || r.model != v.Model || r.number != v.Number {
		return nil
	}
	return r
}
