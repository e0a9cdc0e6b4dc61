package activity

// ring keeps the latest things that were added to it, by their places in the order of adding, from 0.
type ring[T any] struct {
	items []T
	most  int
	added uint64 // ever
}

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

// back returns the place of the oldest of the latest things for which within holds.
func (r *ring[T]) back(within func(*T) bool) uint64 {
	place := r.added
	for place > r.first() && within(r.at(place-1)) {
		place--
	}
	return place
}
