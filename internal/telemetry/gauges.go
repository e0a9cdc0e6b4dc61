package telemetry

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// observe adds the metrics whose values are read from the scheduler and the models when a page is read. Each page takes
// the scheduler's lock once.
func (t *Telemetry) observe(models Models, scheduler Scheduler) error {
	i := &observed{meter: t.meter}
	depth := i.gauge("weft_queue_depth", "Requests that wait in the queues of a version.")
	graphs := i.floatGauge("weft_captured_graph_hit_rate",
		"Part of a version's executions since it was loaded that replayed a captured CUDA graph.")
	count := i.gauge("weft_models",
		"Model versions by state; a model of which nothing could be read counts as one that failed.")
	const behind = "Device time per unit of weight by which, of those that want the device now and ask for more than " +
		"their shares, the one served least is behind the one served most"
	lag := i.floatGauge("weft_fairness_lag_seconds", behind+".")
	lagMS := i.floatGauge("weft_fairness_lag_ms", behind+", in milliseconds.")
	lost := i.gauge("weft_device_lost",
		"Whether a device failed, so that it is not used until it is back: 1 or 0.")
	failures := i.counter("weft_captured_graph_failures_total",
		"CUDA graphs of a version that were to be captured and are not used, because they failed, and versions that "+
			"gave all up.")
	memory := i.gauge("weft_device_memory_bytes",
		"Memory of a device that a version holds there, as of its latest executions.")
	accounts := newAccounts(i)
	return i.by(func(o metric.Observer) {
		state := scheduler.State()
		accounts.observe(o, state.Accounts)
		// A version has a number in the scheduler for each device that it runs on; the page shows their sum.
		queued := map[sharedsched.VersionID]int{}
		for i := range state.Versions {
			v := &state.Versions[i]
			queued[v.ID] = v.Queued + v.Background
		}
		snapshot := models.Snapshot()
		for i := range state.Devices {
			d, is := &state.Devices[i], int64(0)
			on := metric.WithAttributes(attribute.String("device", d.Name))
			o.ObserveFloat64(lag, time.Duration(d.Lag).Seconds(), on)
			o.ObserveFloat64(lagMS, float64(d.Lag)/1e6, on)
			if slices.ContainsFunc(snapshot.Lost, func(l catalog.LostDevice) bool { return l.Name == d.Name }) {
				is = 1
			}
			o.ObserveInt64(lost, is, on)
		}
		for _, m := range snapshot.Models.All() {
			for _, v := range m.Versions {
				// Others have no queue yet, or none any more.
				if v.State != catalog.Ready && v.State != catalog.Unloading {
					continue
				}
				set := metric.WithAttributes(t.versions.slotted(m, v)...)
				waiting := 0
				var live catalog.Live
				// A version that is being unloaded may have nothing more to tell.
				if v.Live != nil {
					live = v.Live()
				}
				for i, r := range replicas(v) {
					waiting += queued[sharedsched.VersionID(r.Scheduler)]
					if i < len(live.Memory) && live.Memory[i] >= 0 {
						on := metric.WithAttributes(attribute.String("device", r.Device))
						o.ObserveInt64(memory, live.Memory[i], on, versionOf(v.Model, v.Number))
					}
				}
				o.ObserveInt64(depth, int64(waiting), set)
				o.ObserveFloat64(graphs, hitRate(live), set)
				o.ObserveInt64(failures, int64(live.GraphFailures), versionOf(v.Model, v.Number))
			}
		}
		for state, n := range countStates(snapshot) {
			o.ObserveInt64(count, n, metric.WithAttributes(attribute.String("state", state.String())))
		}
	})
}

// hitRate returns the part of a version's executions that replayed a captured graph; 0 if there was none.
func hitRate(l catalog.Live) float64 {
	return float64(l.Replayed) / float64(max(l.Replayed+l.Eager, 1))
}

// countStates counts versions by state. Every state is there, so that a query for one finds 0 rather than nothing.
func countStates(s *catalog.Snapshot) map[catalog.State]int64 {
	counts := map[catalog.State]int64{catalog.Loading: 0, catalog.Ready: 0, catalog.Failed: 0, catalog.Unloading: 0}
	for _, m := range s.Models.All() {
		// A model whose versions could not be listed counts once.
		if m.Cause != "" && len(m.Versions) == 0 {
			counts[catalog.Failed]++
		}
		for _, v := range m.Versions {
			counts[v.State]++
		}
	}
	return counts
}
