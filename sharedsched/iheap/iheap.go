// Package iheap has priority queues of ids that do not allocate: one whose members can be moved and removed in
// O(log n), and one whose members leave in O(1).
package iheap

// Heap orders ids by a key, the smallest first; equal keys are ordered by id, so that the order never depends on
// history. Ids should be dense: memory is proportional to the largest one ever used. The zero value is an empty heap.
//
// It is a 4-ary heap: shallower than a binary one, and the four children share a cache line.
type Heap struct {
	items []item
	pos   []int32 // by id: index in items plus one, 0 when absent
}

type item struct {
	key int64
	id  int32
}

func (a item) less(b item) bool { return a.key < b.key || (a.key == b.key && a.id < b.id) }

const arity = 4

// Len returns the number of members.
func (h *Heap) Len() int { return len(h.items) }

// Has reports whether id is a member.
func (h *Heap) Has(id int32) bool { return int(id) < len(h.pos) && h.pos[id] != 0 }

// Min returns the member with the smallest key. It reports false for an empty heap.
func (h *Heap) Min() (id int32, key int64, ok bool) {
	if len(h.items) == 0 {
		return 0, 0, false
	}
	return h.items[0].id, h.items[0].key, true
}

// Second returns the member with the second smallest key. It reports false for a heap of fewer than two.
func (h *Heap) Second() (id int32, key int64, ok bool) {
	if len(h.items) < 2 {
		return 0, 0, false
	}
	least := h.items[1]
	for _, it := range h.items[2:min(1+arity, len(h.items))] {
		if it.less(least) {
			least = it
		}
	}
	return least.id, least.key, true
}

// Set makes id a member with the given key, or gives it that key if it is one.
func (h *Heap) Set(id int32, key int64) {
	for int(id) >= len(h.pos) {
		h.pos = append(h.pos, 0)
	}
	it := item{key, id}
	at := h.pos[id] - 1
	if at < 0 {
		h.items = append(h.items, it)
		h.up(len(h.items)-1, it)
		return
	}
	if h.items[at].key != key {
		h.fix(int(at), it)
	}
}

// Remove ends the membership of id, if there is one.
func (h *Heap) Remove(id int32) {
	if !h.Has(id) {
		return
	}
	at := int(h.pos[id] - 1)
	h.pos[id] = 0
	last := len(h.items) - 1
	moved := h.items[last]
	h.items = h.items[:last]
	if at < last {
		h.fix(at, moved)
	}
}

// fix places it at or around index i, whose former occupant is gone.
func (h *Heap) fix(i int, it item) {
	if i > 0 && it.less(h.items[(i-1)/arity]) {
		h.up(i, it)
	} else {
		h.down(i, it)
	}
}

func (h *Heap) up(i int, it item) {
	for i > 0 {
		parent := (i - 1) / arity
		if !it.less(h.items[parent]) {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, it)
}

func (h *Heap) down(i int, it item) {
	for {
		first := i*arity + 1
		if first >= len(h.items) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(h.items)); c++ {
			if h.items[c].less(h.items[least]) {
				least = c
			}
		}
		if !h.items[least].less(it) {
			break
		}
		h.put(i, h.items[least])
		i = least
	}
	h.put(i, it)
}

func (h *Heap) put(i int, it item) {
	h.items[i] = it
	h.pos[it.id] = int32(i) + 1
}
