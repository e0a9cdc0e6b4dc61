package sharedsched

// order says where a task stands in its queue: by rank (priority), then by target, then by sequence (arrival). In
// overload other numbers take the places of targets.
type order struct {
	Target int64
	Seq    uint64
	Rank   uint8
}

// Before reports whether a task stands before another. No two are equal: Seq differs.
func (a order) Before(b order) bool {
	if a.Rank != b.Rank {
		return a.Rank < b.Rank
	}
	if a.Target != b.Target {
		return a.Target < b.Target
	}
	return a.Seq < b.Seq
}

// ring holds the waiting tasks of one queue in order. Tasks nearly always arrive in order and leave from the front,
// both O(1); one that belongs further forward, or leaves from the middle, moves the shorter side of the ring. A heap
// would bound that by O(log n), but batch formation walks the tasks in order, which a heap cannot do without taking
// them out.
type ring struct {
	buf   []entry // its length is a power of two, or zero
	first int
	n     int
}

// entry is a task in the ring. Its place in the order is kept here, so that moving tasks touches no other memory.
type entry struct {
	order
	Task int32
}

// Len returns the number of tasks.
func (r *ring) Len() int { return r.n }

// At returns the ith task from the front.
func (r *ring) At(i int) *entry { return &r.buf[(r.first+i)&(len(r.buf)-1)] }

// Insert puts a task where it belongs.
func (r *ring) Insert(e entry) {
	if r.n == len(r.buf) {
		r.grow()
	}
	i := r.Before(e.order)
	if i < r.n/2 {
		r.first = (r.first - 1) & (len(r.buf) - 1)
		r.n++
		for j := range i {
			*r.At(j) = *r.At(j + 1)
		}
	} else {
		r.n++
		for j := r.n - 1; j > i; j-- {
			*r.At(j) = *r.At(j - 1)
		}
	}
	*r.At(i) = e
}

// Remove takes out the task that stands at o. It must be there.
func (r *ring) Remove(o order) {
	i := r.Before(o)
	if i < r.n/2 {
		for j := i; j > 0; j-- {
			*r.At(j) = *r.At(j - 1)
		}
		r.first = (r.first + 1) & (len(r.buf) - 1)
	} else {
		for j := i; j < r.n-1; j++ {
			*r.At(j) = *r.At(j + 1)
		}
	}
	r.n--
}

// Before returns the number of entries before o, looking at the ends first because that is where o usually belongs.
func (r *ring) Before(o order) int {
	if r.n == 0 || r.At(r.n-1).Before(o) {
		return r.n
	}
	lo, hi := 0, r.n-1
	if !r.At(0).Before(o) {
		return 0
	}
	for lo+1 < hi { // at(lo) is before o, at(hi) is not
		mid := (lo + hi) / 2
		if r.At(mid).Before(o) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// grow doubles the room. It never shrinks: room that a queue needed once it will need again.
func (r *ring) grow() {
	bigger := make([]entry, max(8, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = *r.At(i)
	}
	r.buf, r.first = bigger, 0
}
