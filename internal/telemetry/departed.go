package telemetry

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/weftserve/weft/runtime/catalog"
)

// keepGone is how long the page shows a version that is gone: long enough that neither a scrape that failed nor a
// version that is loaded again loses counts.
const keepGone = time.Hour

// departed knows for how long models and versions have been gone. Without it the page of a repository whose versions
// come and go would grow for ever.
type departed struct {
	models Models

	// Pages may be made concurrently.
	mu    sync.Mutex
	since map[name]time.Time // guarded by mu; when a page lacked them first
}

// name is a model, or a version of it.
type name struct{ model, version string }

// long reports whether a model or version has been gone for longer than keepGone. Series without a model are never
// gone. Time counts from the first page that lacked it.
func (d *departed) long(n name, snapshot *catalog.Snapshot, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A version that returns and goes again has another hour.
	if n.model == "" || n.in(snapshot) {
		delete(d.since, n)
		return false
	}
	since, known := d.since[n]
	switch {
	case known:
		return now.Sub(since) > keepGone
	case len(d.since) >= maxSeries: // of so many at once the oldest are not told from the newest
		return true
	case d.since == nil:
		d.since = map[name]time.Time{}
	}
	d.since[n] = now
	return false
}

// in reports whether a snapshot has the model, and the version if one is named.
func (n name) in(snapshot *catalog.Snapshot) bool {
	m := snapshot.Model(n.model)
	if m == nil || n.version == "" {
		return m != nil
	}
	return slices.ContainsFunc(m.Versions, func(v *catalog.Version) bool { return number(v) == n.version })
}

// gather returns what is on the page: everything but the series of versions that have been gone for long. The counters
// themselves stay, so that they go on where a version returns.
func (t *Telemetry) gather() ([]*dto.MetricFamily, error) {
	families, err := t.registry.Gather()
	d := t.departed.Load()
	if d == nil { // no model is known yet
		return families, err
	}
	snapshot, now := d.models.Snapshot(), time.Now()
	for _, f := range families {
		// Metrics of the Go runtime and the process have no versions.
		if strings.HasPrefix(f.GetName(), "weft_") {
			f.Metric = slices.DeleteFunc(f.GetMetric(), func(m *dto.Metric) bool {
				return d.long(nameOf(m), snapshot, now)
			})
		}
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.GetMetric()) == 0 }), err
}

// nameOf returns the model and version that a series is about, as far as its labels say.
func nameOf(m *dto.Metric) (n name) {
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "model":
			n.model = l.GetValue()
		case "version":
			n.version = l.GetValue()
		}
	}
	return n
}

// forgetLocked removes the counts of versions and models that have been gone for long. The requests of a removed
// version stay in the sum of its model, so that what was offered remains what ended plus what is in flight. The caller
// holds mu alone.
func (r *requests) forgetLocked(d *departed) {
	snapshot, now := d.models.Snapshot(), time.Now()
	for k, c := range r.ended {
		if k.version > 0 && d.long(name{k.model, strconv.FormatInt(k.version, 10)}, snapshot, now) {
			if r.settled == nil {
				r.settled = map[requestKey]int64{}
			}
			r.settled[requestKey{model: k.model, stream: k.stream}] += c.n.Load()
			delete(r.ended, k)
		}
	}
	// A model with requests in flight stays until they have ended.
	for k, n := range r.openLocked() {
		if n > 0 || !d.long(name{model: k.model}, snapshot, now) {
			continue
		}
		delete(r.offered, k)
		delete(r.settled, k)
		for e := range r.ended {
			if e.model == k.model && e.stream == k.stream {
				delete(r.ended, e)
			}
		}
	}
}
