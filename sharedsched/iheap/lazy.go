package iheap

import "iter"

// Lazy is a 4-ary heap that members leave lazily. Nearly all leave long before their key is the least. A member that
// has left stays in the heap until it comes to the top, or until half of the members have left, when all of those are
// swept out at once. That makes leaving O(1). The zero value is an empty heap.
type Lazy struct {
	members []member
	gone    int // of them that have left
}

// member is an id and its key. Only the owner knows whether it has left.
type member struct {
	key int64
	id  uint64
}

// before orders members, those of equal keys by id, so that the order never depends on history.
func (a member) before(b member) bool { return a.key < b.key || (a.key == b.key && a.id < b.id) }

// Add makes id a member with the given key. An id that has left must not come again.
func (h *Lazy) Add(id uint64, key int64) {
	h.members = append(h.members, member{key, id})
	for i := len(h.members) - 1; i > 0; {
		parent := (i - 1) / arity
		if !h.members[i].before(h.members[parent]) {
			break
		}
		h.members[i], h.members[parent] = h.members[parent], h.members[i]
		i = parent
	}
}

// Left says that one more member has left. It reports whether Sweep is due: half of the heap, and not few, have left.
func (h *Lazy) Left() bool {
	h.gone++
	return h.gone >= 64 && 2*h.gone >= len(h.members)
}

// Sweep takes out all members that have left; stays reports which have not.
func (h *Lazy) Sweep(stays func(id uint64) bool) {
	kept := h.members[:0]
	for _, m := range h.members {
		if stays(m.id) {
			kept = append(kept, m)
		}
	}
	h.members, h.gone = kept, 0
	for i := (len(kept) - 2) / arity; i >= 0; i-- {
		h.down(i)
	}
}

// Min returns the member with the smallest key, which may have left. It reports false for an empty heap.
func (h *Lazy) Min() (id uint64, key int64, ok bool) {
	if len(h.members) == 0 {
		return 0, 0, false
	}
	return h.members[0].id, h.members[0].key, true
}

// Pop takes out the member with the smallest key, which must be one that has left.
func (h *Lazy) Pop() {
	h.gone--
	last := len(h.members) - 1
	h.members[0] = h.members[last]
	h.members = h.members[:last]
	h.down(0)
}

// All are the members and their keys, including members that have left, in no order.
func (h *Lazy) All() iter.Seq2[uint64, int64] {
	return func(yield func(uint64, int64) bool) {
		for _, m := range h.members {
			if !yield(m.id, m.key) {
				return
			}
		}
	}
}

// Gone returns how many of the members have left.
func (h *Lazy) Gone() int { return h.gone }

// down moves a member to its place below.
func (h *Lazy) down(i int) {
	for {
		least := i
		for c := i*arity + 1; c <= i*arity+arity && c < len(h.members); c++ {
			if h.members[c].before(h.members[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.members[i], h.members[least] = h.members[least], h.members[i]
		i = least
	}
}
