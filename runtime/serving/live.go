package serving

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// leftCounts are the counters of replicas that have left a version. The sums that metrics show must never fall.
type leftCounts struct {
	meters []*engine.Meter // some of them still run accepted requests
	graphs engine.Graphs   // of sessions that are closed
	deaths engine.Process  // of sessions that are closed
}

// live returns a function that reads the version's counters. Sessions are asked only when it is called. It keeps the
// replicas of this moment, and is replaced with each change of them. The caller holds the owner's lock.
func (v *Version) live() func() catalog.Live {
	c := &v.left
	// Counters of closed sessions are final, and are added up, so that the list does not grow with each replica.
	c.meters = slices.DeleteFunc(c.meters, func(m *engine.Meter) bool {
		last, final := m.Last()
		if final {
			c.graphs, c.deaths = c.graphs.Plus(last.Graphs), c.deaths.Plus(last.Process)
		}
		return final
	})
	all, left, graphsEnded, deathsEnded := v.Replicas(), slices.Clone(c.meters), c.graphs, c.deaths
	return func() catalog.Live {
		compared, different := v.audit.Counts()
		l := catalog.Live{Audited: compared, Different: different, Crashes: v.provenCrashes()}
		graphs, deaths, batches := graphsEnded, deathsEnded, map[int]catalog.BatchCount{}
		for _, r := range all {
			stats := r.unit.Meter.Read()
			graphs, deaths = graphs.Plus(stats.Graphs), deaths.Plus(stats.Process)
			// -1 says that the engine does not tell: zero would look measured.
			held := int64(-1)
			if stats.Memory.Known {
				held = stats.Memory.Held
			}
			if v.staged() != nil { // its session is closed
				held = 0
			}
			l.Memory = append(l.Memory, held)
			l.Restarting = append(l.Restarting, !stats.Process.Down.IsZero())
			r.unit.Counts.AddTo(batches)
		}
		// Replicas that have left may still answer accepted requests.
		for _, m := range left {
			stats := m.Read()
			graphs, deaths = graphs.Plus(stats.Graphs), deaths.Plus(stats.Process)
		}
		l.Crashes.Deaths, l.Crashes.DeathAt, l.Crashes.Death = deaths.Deaths, deaths.Last, deaths.Cause
		l.Replayed, l.Eager, l.GraphFailures = graphs.Replayed, graphs.Eager, graphs.Failures
		l.Batches = slices.SortedFunc(maps.Values(batches), func(a, b catalog.BatchCount) int { return a.Rows - b.Rows })
		return l
	}
}
