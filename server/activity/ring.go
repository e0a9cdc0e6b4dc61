package activity

import (
	"runtime"
	"sort"
)

// ring keeps the latest things that were added to it, by their places in the order of adding, from 0. The place of a
// thing stays the same for ever; its index in items is used again by the thing that comes r.most places later. Log.mu
// guards it.
type ring[T any] struct {
	items []T
	most  int
	added uint64 // ever
}

// add grows items as long as it is not full: a server with little to do takes little memory.
func (r *ring[T]) add(x T) {
	if len(r.items) < r.most {
		r.items = append(r.items, x)
	} else {
		r.items[r.added%uint64(r.most)] = x
	}
	r.added++
}

// first returns the place of the oldest that is kept, added if there is none.
func (r *ring[T]) first() uint64 { return r.added - uint64(len(r.items)) }

// at returns what is at a place from first to below added, until the next is added.
func (r *ring[T]) at(place uint64) *T { return &r.items[place%uint64(r.most)] }

// since returns the place of the first thing for which later holds: it holds for all after that, or nearly.
func (r *ring[T]) since(later func(*T) bool) uint64 {
	first := r.first()
	return first + uint64(sort.Search(len(r.items), func(i int) bool { return later(r.at(first + uint64(i))) }))
}

// atOnce things of a ring are read before others get their turn: requests wait for the lock to say that they ended.
const atOnce = 1024

// breatheLocked lets go of mu for a moment after so many things. Afterwards, what was read by pointer may have been
// overwritten. The caller holds mu.
func (l *Log) breatheLocked(read uint64) {
	if read%atOnce == 0 {
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
}

// seekLocked calls f with the things of a ring, the youngest first, until it returns false. It lets go of mu meanwhile.
func seekLocked[T any](l *Log, r *ring[T], f func(*T) bool) {
	for i := r.added; i > r.first() && f(r.at(i-1)); i-- {
		l.breatheLocked(i)
	}
}

// copiedLocked returns copies of the things from a place to below another. It lets go of mu meanwhile: things that are
// overwritten then are left out.
func copiedLocked[T any](l *Log, r *ring[T], from, to uint64) []T {
	out := make([]T, 0, to-min(to, max(from, r.first())))
	for i := from; i < to; i++ {
		if i = max(i, r.first()); i < to {
			out = append(out, *r.at(i))
		}
		l.breatheLocked(i)
	}
	return out
}
