package sharedsched

import "github.com/weftserve/weft/sharedsched/ring"

// A caller without a deadline has patience all the same, which nobody knows: it gives up, asks again, and leaves its
// first task in the queue. Served in order of arrival, a queue that overload has filled answers nobody any more who
// still waits: all of the device goes to those who gave up, whose retries keep the queue full, also when the cause has
// long passed (a metastable failure: Bronson et al., HotOS 2021). So from the first task that is refused until none
// waits, the newest of these tasks go first: some callers are answered at once instead of all too late, and the work
// that they would have asked for again is not asked for (adaptive LIFO: Maurer, Fail at Scale, ACM Queue 2015). Those
// that were overtaken get what the device has left, until the version's MaxLatency.

// flooded notes that a task of the version was refused.
func (v *version) flooded(t *Task) {
	if t.Priority.class() == foreground {
		v.newestFirst = v.queued[foreground] > 0
	}
}

// ahead returns the target with which a task stands before all of its rank.
func (q *queue) ahead(place ring.Order) int64 {
	if first := q.ring.Rank(place.Rank); first != nil {
		return min(place.Target, first.Target-1)
	}
	return place.Target
}
