package host

import (
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
)

// graphCounts is how often CUDA graphs were run on replicas that a version had, so that its counters never fall when one goes.
type graphCounts struct {
	left []*replica // are not among the version's any more; some of them still run what they accepted

	replayed, eager, failures uint64 // of those that do not run any more
}

// publish writes counters of the replicas that a version has, and of those that it had.
func (c *graphCounts) publish(has []*replica, public *catalog.Version) {
	c.left = slices.DeleteFunc(c.left, func(r *replica) bool {
		if r.seats.Load() > 0 {
			return false
		}
		if g, is := r.opened.Session.(graphCounter); is {
			replayed, eager := g.Graphs()
			c.replayed, c.eager, c.failures = c.replayed+replayed, c.eager+eager, c.failures+g.GraphFailures()
		}
		return true
	})
	var counters []graphCounter
	for _, r := range slices.Concat(has, c.left) {
		if g, is := r.opened.Session.(graphCounter); is {
			counters = append(counters, g)
		}
	}
	public.Graphs, public.GraphFailures = nil, nil
	if len(counters) == 0 {
		return
	}
	ended := *c // as it is now
	public.Graphs = func() (replayed, eager uint64) {
		replayed, eager = ended.replayed, ended.eager
		for _, g := range counters {
			r, e := g.Graphs()
			replayed, eager = replayed+r, eager+e
		}
		return replayed, eager
	}
	public.GraphFailures = func() (failures uint64) {
		failures = ended.failures
		for _, g := range counters {
			failures += g.GraphFailures()
		}
		return failures
	}
}
