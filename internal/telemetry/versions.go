package telemetry

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// versions finds the labels of a version by its number in the scheduler. They are put together when the version is
// first seen. Readers take the table without a lock.
type versions struct {
	slot      func(*catalog.Model, *catalog.Version) string
	models    Models
	scheduler Scheduler

	// Readers load the table; a newer one replaces it as a whole.
	table atomic.Pointer[versionTable]
	mu    sync.Mutex // held to replace the table
}

// versionTable is immutable. It also has versions that are gone: their last events may still be on their way.
type versionTable struct {
	snapshot *catalog.Snapshot
	byID     catalog.Map[sharedsched.VersionID, *series]
}

// series are the labels of one version.
type series struct {
	// serving: the version was published as ready; before that its executions are proof and warm-up, which no request
	// waits for.
	serving bool
	slot    string
	plain   labels                             // model, version
	device  labels                             // device, model, version
	flush   map[sharedsched.FlushReason]labels // model, version, slot, reason
	reject  map[string]labels                  // model, version, reason
}

// watch sets where versions are looked up. It is called before the first event.
func (vs *versions) watch(m Models, s Scheduler) {
	vs.models, vs.scheduler = m, s
	vs.table.Store(&versionTable{snapshot: &catalog.Snapshot{}})
}

// unknown stands for a version that is not known by any name. Nothing but its device time could be counted.
var unknown = &series{}

// of returns the labels of a version. device is the device of a batch of a version that is not ready yet; "" if its
// labels do not matter. It takes no lock while the models are the same as when the table was made.
func (vs *versions) of(id sharedsched.VersionID, device string) *series {
	table := vs.table.Load()
	if s := table.byID.Get(id); s != nil && table.snapshot == vs.models.Snapshot() {
		return s
	}
	return vs.refresh(id, device)
}

// refresh brings the table in step with the models, and returns the labels of the version. Only models that changed
// since the table was made are looked at.
func (vs *versions) refresh(id sharedsched.VersionID, device string) *series {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	old := vs.table.Load()
	next := &versionTable{snapshot: vs.models.Snapshot(), byID: old.byID}
	for _, m := range next.snapshot.Models.Since(old.snapshot.Models) {
		if m == nil {
			continue
		}
		for _, v := range m.Versions {
			if v.State != catalog.Ready && v.State != catalog.Unloading {
				continue // its number is not known yet
			}
			slot := vs.slot(m, v)
			for _, r := range replicas(v) {
				id := sharedsched.VersionID(r.Scheduler)
				// Labels change when a version becomes ready, or when traffic moves it to another slot.
				if have := next.byID.Get(id); have == nil || !have.serving || have.slot != slot {
					next.byID = next.byID.With(id, newSeries(v.Model, number(v), r.Device, slot, true))
				}
			}
		}
	}
	// Its first batches are proof and warm-up, before the catalog shows its number.
	if next.byID.Get(id) == nil && device != "" {
		model, version := vs.name(id)
		next.byID = next.byID.With(id, newSeries(model, version, device, "", false))
	}
	next.byID = stillNeeded(next, id)
	vs.table.Store(next)
	if s := next.byID.Get(id); s != nil {
		return s
	}
	return unknown
}

// maxGone bounds how many versions that are gone keep their labels, in addition to twice as many as there are. The
// addition keeps refresh from removing them each time.
const maxGone = 4096

// stillNeeded returns the labels of a table, without those of versions that are gone if they are too many. It keeps the
// one in use. A late event of a removed version counts as device time of a version without a name.
func stillNeeded(t *versionTable, used sharedsched.VersionID) catalog.Map[sharedsched.VersionID, *series] {
	if t.byID.Len() <= maxGone {
		return t.byID
	}
	var there catalog.Map[sharedsched.VersionID, *series]
	// The caller is about to use it.
	if s := t.byID.Get(used); s != nil {
		there = there.With(used, s)
	}
	for _, m := range t.snapshot.Models.All() {
		for _, v := range m.Versions {
			for _, r := range replicas(v) {
				id := sharedsched.VersionID(r.Scheduler)
				if s := t.byID.Get(id); s != nil {
					there = there.With(id, s)
				}
			}
		}
	}
	if t.byID.Len() <= maxGone+2*there.Len() {
		return t.byID
	}
	return there
}

// replicas returns where a version runs; a version of one replica may have no list.
func replicas(v *catalog.Version) []catalog.Replica {
	if len(v.Replicas) == 0 {
		return []catalog.Replica{{Device: v.Device, Provider: v.Provider, Scheduler: v.Scheduler}}
	}
	return v.Replicas
}

// name asks the scheduler for the name of a version that is not published as ready. It is empty if the version is gone.
func (vs *versions) name(id sharedsched.VersionID) (model, version string) {
	return splitName(vs.scheduler.VersionName(id))
}

// slotted returns the labels of metrics that say which slot of the traffic leads to a version.
func (vs *versions) slotted(m *catalog.Model, v *catalog.Version) []attribute.KeyValue {
	return append(identity(v.Model, number(v)), attribute.String("slot", vs.slot(m, v)))
}

// number returns the value of the label version.
func number(v *catalog.Version) string { return strconv.FormatInt(v.Number, 10) }

// identity returns the labels that most metrics have.
func identity(model, version string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("model", model), attribute.String("version", version)}
}

// newSeries puts together all labels of a version, also those of reasons that may never occur.
func newSeries(model, version, device, slot string, serving bool) *series {
	common := identity(model, version)
	s := &series{
		serving: serving, slot: slot,
		plain:  newLabels(common),
		device: newLabels(common, attribute.String("device", device)),
		flush:  map[sharedsched.FlushReason]labels{},
		reject: map[string]labels{},
	}
	// Maps made beforehand can be read without a lock.
	for reason := sharedsched.FlushUnspecified; reason <= sharedsched.FlushUnbatched; reason++ {
		s.flush[reason] = newLabels(common, attribute.String("slot", slot), attribute.String("reason", reason.String()))
	}
	for _, reason := range rejections {
		s.reject[reason] = newLabels(common, attribute.String("reason", reason))
	}
	return s
}

// newLabels returns a set of labels for any instrument.
func newLabels(common []attribute.KeyValue, more ...attribute.KeyValue) labels {
	// NewSet sorts its argument, hence a copy.
	option := metric.WithAttributeSet(attribute.NewSet(slices.Concat(common, more)...))
	return labels{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
}
