package host

import (
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// graphCounts is how often CUDA graphs were run on replicas that a version had, so that its counters never fall when one goes.
type graphCounts struct {
	left  []*engine.Meter // of replicas that are not among the version's any more; some of them still run what they accepted
	ended engine.Graphs   // of sessions that are closed
}

// publish writes counters of the replicas that a version has, and of those that it had. No session is called before
// somebody reads them.
func (c *graphCounts) publish(has []*replica, public *catalog.Version) {
	c.left = slices.DeleteFunc(c.left, func(m *engine.Meter) bool {
		last, final := m.Last()
		if final {
			c.ended = c.ended.Plus(last.Graphs)
		}
		return final
	})
	var meters []*engine.Meter
	for _, r := range has {
		meters = append(meters, r.unit.Meter)
	}
	meters = slices.DeleteFunc(append(meters, c.left...), func(m *engine.Meter) bool {
		opened, _ := m.Last()
		return !opened.Graphs.Known
	})
	public.Graphs, public.GraphFailures = nil, nil
	if len(meters) == 0 {
		return
	}
	ended := c.ended // as they are now
	sum := func() engine.Graphs {
		all := ended
		for _, m := range meters {
			all = all.Plus(m.Read().Graphs)
		}
		return all
	}
	public.Graphs = func() (replayed, eager uint64) {
		all := sum()
		return all.Replayed, all.Eager
	}
	public.GraphFailures = func() uint64 { return sum().Failures }
}
