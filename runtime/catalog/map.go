package catalog

import (
	"cmp"
	"hash/maphash"
	"iter"
)

// Map is an immutable map, sorted by key. A map that differs in one key from another shares all but some twenty of its
// parts with it, so that the cost of publishing a change depends on the change, however much is published; and the
// differences between two maps are found without a look at the rest. The zero value is empty.
//
// It is a treap: a search tree by key in which no node ranks above its parent, ranks being hashes of the keys. That
// keeps it shallow, and makes its shape a function of its keys.
type Map[K cmp.Ordered, V comparable] struct{ root *node[K, V] }

type node[K cmp.Ordered, V comparable] struct {
	key         K
	value       V
	rank        uint64
	size        int // of it and all below it
	left, right *node[K, V]
}

// rankSeed is the process's own: nobody can choose names that make a tree deep.
var rankSeed = maphash.MakeSeed()

// Len returns how many keys there are.
func (m Map[K, V]) Len() int { return m.root.len() }

// Get returns the value of a key, the zero value if there is none.
func (m Map[K, V]) Get(key K) (value V) {
	for n := m.root; n != nil; {
		switch c := cmp.Compare(key, n.key); {
		case c == 0:
			return n.value
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	return value
}

// All yields every key and its value, sorted by key.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.walk(yield) }
}

// With returns the map with a value for a key, in the place of the one that it has.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	return Map[K, V]{m.root.with(&node[K, V]{key: key, value: value, rank: maphash.Comparable(rankSeed, key)})}
}

// Without returns the map without a key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	left, right := m.root.split(key)
	return Map[K, V]{join(left, right)}
}

// Since yields the differences from an earlier map, sorted by key: each key that is new or has another value, and each
// that is gone, with the zero value.
func (m Map[K, V]) Since(before Map[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { differences(before.root, m.root, yield) }
}

// above reports whether a node ranks above another.
func (n *node[K, V]) above(other *node[K, V]) bool {
	return n.rank > other.rank || n.rank == other.rank && n.key < other.key
}

func (n *node[K, V]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

// counted returns a new node, with its size computed from its subtrees.
func (n *node[K, V]) counted() *node[K, V] {
	n.size = n.left.len() + 1 + n.right.len()
	return n
}

// with returns the tree with a node in it. n may be nil, as everywhere below.
func (n *node[K, V]) with(added *node[K, V]) *node[K, V] {
	if n == nil || added.above(n) {
		added.left, added.right = n.split(added.key)
		return added.counted()
	}
	next := *n
	switch c := cmp.Compare(added.key, n.key); {
	case c == 0:
		next.value = added.value
	case c < 0:
		next.left = n.left.with(added)
	default:
		next.right = n.right.with(added)
	}
	return next.counted()
}

// split returns the entries below a key and those above it.
func (n *node[K, V]) split(key K) (below, above *node[K, V]) {
	if n == nil {
		return nil, nil
	}
	next := *n
	switch c := cmp.Compare(key, n.key); {
	case c == 0:
		return n.left, n.right
	case c < 0:
		below, next.left = n.left.split(key)
		return below, next.counted()
	default:
		next.right, above = n.right.split(key)
		return next.counted(), above
	}
}

// join returns one tree of two, where all keys of the one are below those of the other.
func join[K cmp.Ordered, V comparable](left, right *node[K, V]) *node[K, V] {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.above(right):
		next := *left
		next.right = join(left.right, right)
		return next.counted()
	}
	next := *right
	next.left = join(left, right.left)
	return next.counted()
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key, n.value) && n.right.walk(yield)
}

// differences walks two trees side by side and leaves out the shared parts.
func differences[K cmp.Ordered, V comparable](before, now *node[K, V], yield func(K, V) bool) bool {
	switch {
	case before == now:
		return true
	case before == nil:
		return now.walk(yield)
	case now == nil || now.key != before.key && before.above(now): // its key is gone, for it would be higher up
		left, right := now.split(before.key)
		var none V
		return differences(before.left, left, yield) && yield(before.key, none) &&
			differences(before.right, right, yield)
	case now.key != before.key: // and this one is new
		left, right := before.split(now.key)
		return differences(left, now.left, yield) && yield(now.key, now.value) && differences(right, now.right, yield)
	}
	return differences(before.left, now.left, yield) && (before.value == now.value || yield(now.key, now.value)) &&
		differences(before.right, now.right, yield)
}
