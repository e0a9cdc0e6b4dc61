package sim

import (
	"cmp"
	"slices"
	"sort"
)

// UpperBound returns a number of requests that no schedule on one device answers on time, whatever it knows: the optimum of a
// relaxation, rounded down. Background requests are left out.
//
// Take any schedule. Let a batch start at s and take c, and let its on-time requests have b rows together. Then c is at least
// cost(b), the least that b rows or more can take, and each of these requests has arrived by s and is due no earlier than
// s+cost(b); so at s there are at least b rows of the same model and key of which that is true. Divide the time of the batch
// among its on-time requests in proportion to their rows. Request j gets rows(j)*c/b, which is at least
//
//	work(j) = rows(j) * min cost(b)/b
//
// over all b for which there is such an s: one at which j is there and at least b rows are (foreLine.leastWork). It gets it
// between arrival and deadline, and no two requests get the same time. So the on-time requests of any schedule could all be done
// by a machine that may divide and interrupt work at will, if j took work(j).
//
// That machine may answer parts of requests too: let x(j), at most 1, be the part of j, worth x(j). The amounts of work that it
// can do between the arrivals and deadlines form a polymatroid (they are flows from requests through time), on which the greedy
// algorithm maximises a linear function: take the requests by rising work, so by falling worth per time, and do of each as much
// as is possible beside those before. How much that is, is the smallest room left in any interval of time that contains the
// request's own: its length less the work accepted within it (Hall's condition for intervals). Time is in slots, and the
// requests' intervals are extended to whole slots, which only makes the machine more able.
func UpperBound(models []Model, reqs []*Request) (onTime int) {
	f := newForesight(models, reqs)
	if len(f.arrivals) == 0 {
		return 0
	}
	slots := min(64+2*len(f.arrivals), 1024) // of the order of the requests: finer ones would not make it much tighter
	start := f.arrivals[0].at
	slot := (f.end-start)/Time(slots) + 1

	type job struct {
		work     float64
		from, to int // slots; to is behind the last
	}
	var jobs []job
	for i := range f.lines {
		l := &f.lines[i]
		for j, work := range l.leastWork() {
			jobs = append(jobs, job{work, int((l.arrival[j] - start) / slot), int((l.deadline[j] - start + slot - 1) / slot)})
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.work, b.work) })
	rooms := newRooms(slots, float64(slot))
	sum := 0.0
	for _, j := range jobs {
		if done := rooms.take(j.from, j.to, j.work); done > 0 {
			sum += done / j.work
		}
	}
	return int(sum + 1e-6)
}

// leastWork returns for each request a lower bound of its share of the time of a batch that answers it on time, in nanoseconds.
func (l *foreLine) leastWork() []float64 {
	n := len(l.arrival)
	// The least time per row in batches of at most so many.
	perRow := make([]float64, l.max+1)
	for b := 1; b <= l.max; b++ {
		perRow[b] = float64(l.cost[b]) / float64(b)
		if b > 1 {
			perRow[b] = min(perRow[b], perRow[b-1])
		}
	}
	// The most rows that can wait for one batch together changes for the better only when one arrives.
	together := make([]int, n)
	for k := range together {
		together[k] = l.together(k)
	}
	work := make([]float64, n)
	for j := range work {
		rows := l.before[j+1] - l.before[j]
		work[j] = float64(l.alone[j])
		for k := j; k < n && l.arrival[k] < l.deadline[j]; k++ {
			if b := min(together[k], l.within(l.deadline[j]-l.arrival[k], l.max)); b > 0 {
				work[j] = min(work[j], float64(rows)*perRow[b])
			}
		}
	}
	return work
}

// together returns the largest b for which, when request k arrives, at least b rows are there that are due no earlier than a
// batch of b started then ends.
func (l *foreLine) together(k int) int {
	now := l.arrival[k]
	n := l.arrived(now, k)
	return sort.Search(l.max, func(b int) bool {
		rows := 0
		for i := n - 1; i >= 0 && rows <= b && l.arrival[i]+l.patience >= now; i-- {
			if l.deadline[i] >= now+l.cost[b+1] {
				rows += l.before[i+1] - l.before[i]
			}
		}
		return rows < b+1
	})
}

// rooms knows for each interval of slots how much of its time is not needed by work that has to be done within it.
type rooms struct {
	slots int
	leaf  int // where the leaves of the trees begin
	// By the first slot of the interval: a tree over its last slot. A leaf holds what the room grows by when the interval is
	// extended by this slot; a node holds the sum of that below it, and the least sum of a beginning.
	sum, least [][]float64
	dead       []int // by slot: the furthest end of an interval known to have no room that begins there or earlier
}

func newRooms(slots int, slot float64) *rooms {
	r := &rooms{slots: slots, leaf: 1, dead: make([]int, slots)}
	for r.leaf < slots {
		r.leaf *= 2
	}
	for from := range slots {
		sum, least := make([]float64, 2*r.leaf), make([]float64, 2*r.leaf)
		for to := from; to < slots; to++ {
			sum[r.leaf+to], least[r.leaf+to] = slot, slot
		}
		for i := r.leaf - 1; i > 0; i-- {
			sum[i], least[i] = sum[2*i]+sum[2*i+1], min(least[2*i], sum[2*i]+least[2*i+1])
		}
		r.sum, r.least = append(r.sum, sum), append(r.least, least)
	}
	return r
}

// take does as much of the work as there is room for within the slots, and returns how much that was.
func (r *rooms) take(from, to int, work float64) float64 {
	if r.dead[from] >= to {
		return 0
	}
	last, wanted := to-1, work
	for x := 0; x <= from; x++ {
		work = min(work, r.room(x, last))
	}
	if work < wanted { // so there is an interval without room around this one
		for x := from; x < r.slots && r.dead[x] < to; x++ {
			r.dead[x] = to
		}
	}
	if work <= 0 {
		return 0
	}
	for x := 0; x <= from; x++ {
		r.fill(x, last, work)
	}
	return work
}

// room returns the least room of the intervals that begin with slot x and end with slot last or later.
func (r *rooms) room(x, last int) float64 {
	sum, least := r.sum[x], r.least[x]
	i := r.leaf + last
	room := least[i]
	for ; i > 1; i /= 2 {
		if i%2 == 0 {
			room = min(room, sum[i]+least[i+1])
		} else {
			room += sum[i-1]
		}
	}
	return room
}

// fill notes that work has to be done in the interval from slot x to slot last.
func (r *rooms) fill(x, last int, work float64) {
	sum, least := r.sum[x], r.least[x]
	i := r.leaf + last
	sum[i] -= work
	least[i] -= work
	for i /= 2; i > 0; i /= 2 {
		sum[i], least[i] = sum[2*i]+sum[2*i+1], min(least[2*i], sum[2*i]+least[2*i+1])
	}
}
