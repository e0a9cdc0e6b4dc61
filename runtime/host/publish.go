package host

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// face is a version as it was published last. It is published again only if its revision has changed, so that a
// snapshot shares what is equal with the one before.
type face struct {
	of       *residency.Version
	revision uint64
	public   *catalog.Version
	resident *serving.Version
}

// publish publishes the present state of the named models as a new snapshot. It takes time for these only, however many
// there are. The caller holds Host.mu.
func (h *Host) publish(names []string) {
	now := h.Snapshot()
	next := &catalog.Snapshot{Revision: now.Revision + 1, Models: now.Models, Lost: h.fleet.Lost()}
	var stopped []*serving.Version // take requests no more
	for _, name := range names {
		stopped = append(stopped, h.publishModel(next, name)...)
		if waited := h.changed[name]; waited != nil {
			close(waited)
			delete(h.changed, name)
		}
	}
	h.published.Store(next)
	// The order matters: a caller that finds a version not ready any more must find a newer snapshot, too.
	for _, v := range stopped {
		v.Ready.Store(false)
	}
}

// republish publishes a model again although only the progress of a load has changed, so that callers that wait for the
// start look once more. It takes Host.mu.
func (h *Host) republish(name string) {
	h.mu.Lock()
	next := *h.Snapshot()
	if m := next.Model(name); m != nil {
		again := *m
		next.Revision++
		next.Models = next.Models.With(name, &again)
		h.published.Store(&next)
	}
	h.mu.Unlock()
	// OnChange comes before the callers that wait for the start: what they see is then known everywhere.
	h.notify() // who waits for the start is told last
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tellSettled()
}

// publishModel puts the present state of a model into next, and returns its versions that take requests no more. The
// caller holds Host.mu.
func (h *Host) publishModel(next *catalog.Snapshot, name string) (stopped []*serving.Version) {
	before := h.faces[name]
	m := h.residency.Model(name)
	if m == nil || m.Empty() {
		next.Models = next.Models.Without(name)
		delete(h.faces, name)
	} else {
		h.faces[name] = h.publishVersions(next, m, before)
	}
	for number, f := range h.faces[name] {
		if f.resident != nil && m.Versions[number].State == residency.Draining {
			stopped = append(stopped, f.resident)
		}
	}
	for number, f := range before {
		if f.resident != nil && f.resident != h.faces[name][number].resident {
			stopped = append(stopped, f.resident)
			delete(h.versions, f.resident.ID)
		}
	}
	return stopped
}

// publishVersions puts a model that is not empty into next, and returns the faces of its versions. A model in which
// nothing has changed is left out, so that followers need not look at it.
func (h *Host) publishVersions(next *catalog.Snapshot, m *residency.Model, before map[int64]face) map[int64]face {
	public := &catalog.Model{
		Name: m.Name, Cause: m.Cause, Elsewhere: m.Elsewhere,
		Labels: m.Labels, Traffic: m.Traffic.Public, TrafficWaitsFor: m.Traffic.WaitsFor,
		RolledBack: m.Decided.RolledBack, Unloaded: m.UnloadedByHand(), Decided: m.Decided.Highest(),
	}
	faces := map[int64]face{}
	for _, number := range slices.Sorted(maps.Keys(m.Versions)) {
		v := m.Versions[number]
		f := before[number]
		if f.of != v || f.revision != v.Revision() {
			f = h.show(m, v, f)
		}
		faces[number] = f
		public.Versions = append(public.Versions, f.public)
	}
	if before := next.Model(m.Name); before == nil || !sameModel(before, public) {
		next.Models = next.Models.With(m.Name, public)
	}
	return faces
}

// show returns the face of a version, and directs its requests to the replicas that it has now. The caller holds
// Host.mu.
func (h *Host) show(m *residency.Model, v *residency.Version, before face) face {
	public := &catalog.Version{
		Model: m.Name, Number: v.Number, Path: v.Of.Path(), Steps: v.Of.Version.Steps(), State: v.State.Public(),
		StepOnly: v.StepOnly,
	}
	f := face{of: v, revision: v.Revision(), public: public}
	if v.Cause != nil {
		public.Cause, public.Fault = v.Cause.Text, v.Cause
		if whole, is := errors.AsType[*catalog.Hidden](v.Cause.Err); is {
			public.Fault = whole // without the cause's text about the attempts
		}
	}
	if v.State == residency.Loading || v.State == residency.Replacing {
		name, number := m.Name, v.Number
		public.Loading = func() catalog.LoadProgress { return h.loadings.of(name, number) }
	}
	r := v.Resident
	if r == nil {
		if last := before.public; before.of == v && v.State == residency.Failed && last.Signature != nil {
			out := *last // it is shown as it was before its devices were lost, or before it was taken out
			out.State, out.Cause, out.Fault, out.Replicas, out.Live = public.State, public.Cause, public.Fault, nil, nil
			out.Loading, out.Resident = nil, nil
			if out.Again, out.TakenOut = v.TakenOut(); out.TakenOut && last.Live != nil {
				final := last.Live() // its sessions and buffers are not kept for that
				out.Live = func() catalog.Live { return final }
			}
			f.public = &out
			return f
		}
		if v.Of.Manifest != nil {
			promise(public, v.Of.Manifest)
		}
		return f
	}
	f.resident = h.versions[r.ID]
	f.resident.Change(h.replicasOf(r.Replicas))
	if v.State != residency.Draining {
		f.resident.Ready.Store(true)
	}
	if len(r.Replicas) == 0 { // all its devices were lost while it drains
		last := *before.public
		last.State, last.Replicas, last.Loading, last.Resident = public.State, nil, nil, nil
		f.public = &last
		return f
	}
	public.Path, public.Steps, public.LoadedAt, public.Scarce = r.Of.Path(), r.Of.Version.Steps(), r.Since, r.Scarce()
	promise(public, r.Settings)
	f.resident.Describe(public, r.Settings)
	return f
}

// promise writes the properties that callers can rely on by the manifest: the weight and the latencies.
func promise(public *catalog.Version, m *modelrepo.Manifest) {
	public.Weight = m.Weight
	public.TargetLatency, public.MaxLatency = time.Duration(m.TargetLatency), time.Duration(m.MaxLatency)
}

// changesLocked returns a channel that is closed at the next change of the published state of a model. The caller holds
// Host.mu.
func (h *Host) changesLocked(name string) <-chan struct{} {
	if h.changed[name] == nil {
		h.changed[name] = make(chan struct{})
	}
	return h.changed[name]
}

// sameModel reports whether two states of a model are equal for everybody. Versions are compared as pointers, since an
// unchanged one keeps its face.
func sameModel(a, b *catalog.Model) bool {
	return a.Cause == b.Cause && a.Elsewhere.Same(b.Elsewhere) &&
		slices.Equal(a.Versions, b.Versions) && maps.Equal(a.Labels, b.Labels) &&
		a.Traffic == b.Traffic && slices.Equal(a.RolledBack, b.RolledBack) &&
		slices.Equal(a.TrafficWaitsFor, b.TrafficWaitsFor) && slices.Equal(a.Unloaded, b.Unloaded) && a.Decided == b.Decided
}

// notify calls OnChange with the newest snapshot. notifyMu keeps the calls in order: the snapshot is read with it held.
// The caller does not hold Host.mu.
func (h *Host) notify() {
	if h.cfg.OnChange == nil {
		return
	}
	h.notifyMu.Lock()
	defer h.notifyMu.Unlock()
	h.cfg.OnChange(h.Snapshot())
}

// residents returns every version that is published with a replica. It takes no lock.
func (h *Host) residents() (all []*serving.Version) {
	for _, m := range h.Snapshot().Models.All() {
		for _, public := range m.Versions {
			if v, is := public.Resident.(*serving.Version); is {
				all = append(all, v)
			}
		}
	}
	return all
}

// counts are sums since the host was made.
type counts struct{ loads, failures, unloads atomic.Uint64 }

// Counts holds the host's counts since it was made, and the memory that it holds.
type Counts struct {
	// Loads counts versions that became ready, LoadFailures attempts that failed, and Unloads versions that were
	// unloaded, also the ones that another version replaced. TakenOut counts how often a version was taken out because
	// its requests end the engine's process again and again.
	Loads, LoadFailures, Unloads, TakenOut uint64
	// MemoryInUse and MemoryBudget are bytes, by the estimate described at Config.MemoryBudget; a budget of 0 is none.
	MemoryInUse, MemoryBudget int64
}

// Counts returns the present counts.
func (h *Host) Counts() Counts {
	inUse, budget := h.memory.InUse()
	h.mu.Lock()
	takenOut := h.residency.TakenOut()
	h.mu.Unlock()
	return Counts{
		Loads: h.counts.loads.Load(), LoadFailures: h.counts.failures.Load(), Unloads: h.counts.unloads.Load(),
		TakenOut:    takenOut,
		MemoryInUse: inUse, MemoryBudget: budget,
	}
}
