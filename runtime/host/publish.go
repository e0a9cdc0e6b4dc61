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
	byID     catalog.Map[sharedsched.VersionID, *version] // by the number in the scheduler, of each replica
}

// update changes a model and publishes what it is afterwards, unless change says that nothing did.
func (h *Host) update(name string, change func() bool) {
	h.updateSeveral(func() ([]string, bool) { return []string{name}, change() })
}

// updateSeveral changes models and publishes what those are afterwards that change names, unless it says that nothing is to be
// published. It takes time for these only, however many there are.
func (h *Host) updateSeveral(change func() (names []string, is bool)) {
	h.mu.Lock()
	names, is := change()
	if !is {
		h.mu.Unlock()
		return
	}
	now := h.published.Load()
	next := &published{
		&catalog.Snapshot{Revision: now.snapshot.Revision + 1, Models: now.snapshot.Models, Lost: h.fleet.lost()}, now.byID,
	}
	var tell []func()
	for _, name := range names {
		m := h.models[name]
		m.resolveLabels()
		for _, n := range m.traffic.resolve(m) {
			tell = append(tell, func() {
				h.log.Info(n.message, append([]any{"model", name}, n.attrs...)...) //nolint:sloglint // one of the few that resolve has
			})
		}
		next.take(name, m)
		if waited := h.changed[name]; waited != nil {
			close(waited)
			delete(h.changed, name)
		}
	}
	h.published.Store(next)
	h.mu.Unlock()
	for _, t := range tell {
		t()
	}
	h.notify()
}

// changesLocked returns what is closed when what is published of a model changes next.
func (h *Host) changesLocked(name string) <-chan struct{} {
	if h.changed[name] == nil {
		h.changed[name] = make(chan struct{})
	}
	return h.changed[name]
}

// take has a model in what is to be published as it is now, with who stands for its versions. The caller holds Host.mu.
func (p *published) take(name string, m *model) {
	for _, id := range m.published {
		p.byID = p.byID.Without(id)
	}
	m.published = nil
	if m.empty() {
		p.snapshot.Models = p.snapshot.Models.Without(name)
		return
	}
	public := &catalog.Model{
		Name: name, Cause: m.cause, Labels: m.labels, Traffic: m.traffic.public, TrafficWaitsFor: m.traffic.waitsFor, RolledBack: m.decided.RolledBack,
	}
	for _, e := range m.versions {
		public.Versions = append(public.Versions, e.public)
		if e.resident == nil {
			continue
		}
		for _, r := range e.resident.list() {
			m.published = append(m.published, r.id)
			p.byID = p.byID.With(r.id, e.resident)
		}
	}
	slices.SortFunc(public.Versions, func(a, b *catalog.Version) int { return cmp.Compare(a.Number, b.Number) })
	if before := p.snapshot.Model(name); before == nil || !sameModel(before, public) {
		p.snapshot.Models = p.snapshot.Models.With(name, public)
	}
}

// sameModel reports whether nothing is new: then nobody need look at the model again.
func sameModel(a, b *catalog.Model) bool {
	return a.Cause == b.Cause && slices.Equal(a.Versions, b.Versions) && maps.Equal(a.Labels, b.Labels) &&
		a.Traffic == b.Traffic && slices.Equal(a.RolledBack, b.RolledBack) && slices.Equal(a.TrafficWaitsFor, b.TrafficWaitsFor)
}

// updateVersion publishes a version that differs from the present one in what change does to it. The caller has the model's turn,
// so that both are there.
func (h *Host) updateVersion(name string, number int64, change func(*entry, *catalog.Version)) {
	h.update(name, func() bool {
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
	if r := p.byID.Get(sharedsched.VersionID(v.Scheduler)); r != nil && r.model == v.Model && r.number == v.Number {
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
	return p.byID.Get(sharedsched.VersionID(now.Scheduler))
}

// residents returns every version that is published with a replica, each once, in the order of their numbers in the scheduler.
func (h *Host) residents() (all []*version) {
	seen := map[*version]bool{}
	for _, v := range h.published.Load().byID.All() {
		if !seen[v] {
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
