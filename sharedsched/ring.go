package sharedsched

// order says where a task stands in its queue: by priority, then by target, then by arrival.
type order struct {
	target Time
	seq    uint64
	rank   uint8
}

// before reports whether a task stands before another. No two are equal: seq differs.
func (a order) before(b order) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.target != b.target {
		return a.target < b.target
	}
	return a.seq < b.seq
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
	task int32
}

// at returns the ith task from the front.
func (r *ring) at(i int) *entry { return &r.buf[(r.first+i)&(len(r.buf)-1)] }

// insert puts a task where it belongs.
func (r *ring) insert(e entry) {
	if r.n == len(r.buf) {
		r.grow()
	}
	i := r.search(e.order)
	if i < r.n/2 {
		r.first = (r.first - 1) & (len(r.buf) - 1)
		r.n++
		for j := range i {
			*r.at(j) = *r.at(j + 1)
		}
	} else {
		r.n++
		for j := r.n - 1; j > i; j-- {
			*r.at(j) = *r.at(j - 1)
		}
	}
	*r.at(i) = e
}

// remove takes out the task that stands at o. It must be there.
func (r *ring) remove(o order) {
	i := r.search(o)
	if i < r.n/2 {
		for j := i; j > 0; j-- {
			*r.at(j) = *r.at(j - 1)
		}
		r.first = (r.first + 1) & (len(r.buf) - 1)
	} else {
		for j := i; j < r.n-1; j++ {
			*r.at(j) = *r.at(j + 1)
		}
	}
	r.n--
}

// search returns the number of entries before o, looking at the ends first because that is where o usually belongs.
func (r *ring) search(o order) int {
	if r.n == 0 || r.at(r.n-1).before(o) {
		return r.n
	}
	lo, hi := 0, r.n-1
	if !r.at(0).before(o) {
		return 0
	}
	for lo+1 < hi { // at(lo) is before o, at(hi) is not
		mid := (lo + hi) / 2
		if r.at(mid).before(o) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// grow doubles the room. It never shrinks: what a queue needed once it will need again.
func (r *ring) grow() {
	bigger := make([]entry, max(8, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.buf, r.first = bigger, 0
}
