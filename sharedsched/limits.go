package sharedsched

// limits knows when the next task passes its limit. It is a 4-ary heap that tasks leave lazily: one that starts, as
// nearly all do long before their limit, stays until it comes to the top or until half of the heap are such, when all
// of them are swept out at once. That makes leaving O(1), and it happens once per task; taking each out of the middle
// was dearer than all the rest of forming a batch.
type limits struct {
	heap []limit
	gone int // members that do not wait any more
}

// limit is when a task passes its limit. Its handle tells later whether it waits still.
type limit struct {
	at   Time
	task Handle
}

// before orders limits, equal ones by handle, so that the order never depends on history.
func (a limit) before(b limit) bool { return a.at < b.at || (a.at == b.at && a.task < b.task) }

const limitsArity = 4

// add watches the limit of a task that waits.
func (l *limits) add(at Time, task Handle) {
	l.heap = append(l.heap, limit{at, task})
	for i := len(l.heap) - 1; i > 0; {
		parent := (i - 1) / limitsArity
		if !l.heap[i].before(l.heap[parent]) {
			break
		}
		l.heap[i], l.heap[parent] = l.heap[parent], l.heap[i]
		i = parent
	}
}

// left says that one member waits no more.
func (l *limits) left(s *slab) {
	if l.gone++; l.gone < 64 || 2*l.gone < len(l.heap) {
		return
	}
	kept := l.heap[:0]
	for _, m := range l.heap {
		if s.waits(m.task) {
			kept = append(kept, m)
		}
	}
	l.heap, l.gone = kept, 0
	for i := (len(kept) - 2) / limitsArity; i >= 0; i-- {
		l.down(i)
	}
}

// earliest returns a time before which no limit comes, Never if there is none.
func (l *limits) earliest() Time {
	if len(l.heap) == 0 {
		return Never
	}
	return l.heap[0].at
}

// due takes out a task whose limit has come. It reports false when there is no more.
func (l *limits) due(now Time, s *slab) (slot int32, ok bool) {
	for len(l.heap) > 0 && l.heap[0].at <= now {
		h := l.heap[0].task
		if s.waits(h) {
			return h.Slot(), true
		}
		l.gone--
		l.pop()
	}
	return 0, false
}

// pop takes out the earliest one.
func (l *limits) pop() {
	last := len(l.heap) - 1
	l.heap[0] = l.heap[last]
	l.heap = l.heap[:last]
	l.down(0)
}

// down moves a member to its place below.
func (l *limits) down(i int) {
	for {
		least := i
		for c := i*limitsArity + 1; c <= i*limitsArity+limitsArity && c < len(l.heap); c++ {
			if l.heap[c].before(l.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		l.heap[i], l.heap[least] = l.heap[least], l.heap[i]
		i = least
	}
}
