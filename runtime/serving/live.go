package serving

import (
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// graphCounts is how often CUDA graphs were run on replicas that left a version, so that its counters never fall.
type graphCounts struct {
	left  []*engine.Meter // some of them still run accepted requests
	ended engine.Graphs   // of sessions that are closed
}

// live returns the reader of the version's counters. No session is called before somebody reads them. The caller holds
// the owner's lock.
func (v *Version) live() func() catalog.Live {
	c := &v.graphs
	c.left = slices.DeleteFunc(c.left, func(m *engine.Meter) bool {
		last, final := m.Last()
		if final {
			c.ended = c.ended.Plus(last.Graphs)
		}
		return final
	})
	all, left, ended := v.Replicas(), slices.Clone(c.left), c.ended
	return func() catalog.Live {
		compared, different := v.audit.Counts()
		l := catalog.Live{Audited: compared, Different: different}
		graphs := ended
		for _, r := range all {
			stats := r.unit.Meter.Read()
			graphs = graphs.Plus(stats.Graphs)
			held := int64(-1)
			if stats.Memory.Known {
				held = stats.Memory.Held
			}
			l.Memory = append(l.Memory, held)
		}
		for _, m := range left {
			graphs = graphs.Plus(m.Read().Graphs)
		}
		l.Replayed, l.Eager, l.GraphFailures = graphs.Replayed, graphs.Eager, graphs.Failures
		return l
	}
}
