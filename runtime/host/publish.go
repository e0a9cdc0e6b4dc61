package host

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// published is what is known of the models at one moment, and who stands for it. Immutable.
type published struct {
	snapshot *catalog.Snapshot
	byID     map[sharedsched.VersionID]*version // by the number in the scheduler, of each replica
}

// update changes the models and publishes what they are afterwards, unless change says that nothing did.
func (h *Host) update(change func() bool) {
	h.mu.Lock()
	if !change() {
		h.mu.Unlock()
		return
	}
	s := &catalog.Snapshot{Revision: h.Snapshot().Revision + 1, Lost: h.fleet.lost()}
	byID := map[sharedsched.VersionID]*version{}
	var tell []func()
	for _, name := range slices.Sorted(maps.Keys(h.models)) {
		m := h.models[name]
		m.labels.resolve(m.ready)
		for _, n := range m.traffic.resolve(m) {
			tell = append(tell, func() {
				h.log.Info(n.message, append([]any{"model", name}, n.attrs...)...) //nolint:sloglint // one of the few that resolve has
			})
		}
		if m.empty() {
			continue
		}
		public := &catalog.Model{Name: name, Cause: m.cause, Labels: m.labels.public, Traffic: m.traffic.public, TrafficWaitsFor: m.traffic.waitsFor}
		for _, e := range m.versions {
			public.Versions = append(public.Versions, e.public)
			if e.resident == nil {
				continue
			}
			for _, r := range e.resident.list() {
				byID[r.id] = e.resident
			}
		}
		slices.SortFunc(public.Versions, func(a, b *catalog.Version) int { return cmp.Compare(a.Number, b.Number) })
		s.Models = append(s.Models, public)
	}
	h.published.Store(&published{s, byID})
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	for _, t := range tell {
		t()
	}
	h.notify()
}

// updateVersion publishes a version that differs from the present one in what change does to it. The caller has the model's turn,
// so that both are there.
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
	h.cfg.OnChange(h.Snapshot())
}

// resident returns the version that a published one stands for, or the one that took its place under its number, if that takes
// the same requests; or nil when it is gone. The version returned need not be ready.
func (h *Host) resident(v *catalog.Version) *version {
	p := h.published.Load()
	if r := p.byID[sharedsched.VersionID(v.Scheduler)]; r != nil && r.model == v.Model && r.number == v.Number {
		return r
	}
	m := p.snapshot.Model(v.Model)
	if m == nil {
		return nil
	}
	now := m.Version(v.Number)
	if now == nil || now.State != catalog.Ready || !sameCalls(now.Signature, v.Signature) {
		return nil
	}
	return p.byID[sharedsched.VersionID(now.Scheduler)]
}

// residents returns every version that is published with a replica, each once, in the order of their numbers in the scheduler.
func (h *Host) residents() (all []*version) {
	byID := h.published.Load().byID
	seen := map[*version]bool{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if v := byID[id]; !seen[v] {
			seen[v] = true
			all = append(all, v)
		}
	}
	return all
}

// sameCalls reports whether what was checked against the one signature may be run under the other.
func sameCalls(a, b *tensor.Signature) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a.Inputs, b.Inputs) && reflect.DeepEqual(a.Outputs, b.Outputs)
}
