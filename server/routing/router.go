package routing

import (
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
)

// Router keeps the table of the newest snapshot it has seen. The zero value is ready. It is safe for concurrent use, and
// readers never wait: a table is replaced whole.
type Router struct {
	current atomic.Pointer[Table]
}

// Table returns the table of s, or of a newer snapshot if there was one. It builds a table only when s is news.
func (r *Router) Table(s *catalog.Snapshot) *Table {
	for {
		current := r.current.Load()
		if current != nil && (current.snapshot == s || current.snapshot.Revision > s.Revision) {
			return current
		}
		if next := NewTable(s); r.current.CompareAndSwap(current, next) {
			return next
		}
	}
}
