package audit

import "sync"

// MemoryLimit is how many bytes all rows that are kept for audits may take, with the copies of them that are run.
// rowLimit bounds those of one row.
const MemoryLimit, rowLimit = 64 << 20, 8 << 20

// Memory counts the bytes of the rows that are kept for audits, of all versions. The zero value holds nothing. Safe for
// concurrent use.
type Memory struct {
	mu      sync.Mutex
	held    int64             // guarded by mu; bytes
	waiting map[*row]*Auditor // guarded by mu: rows that wait for their audit
}

// Reserve takes memory if there is room, or where rows that wait for audits make some: the oldest first, which are
// those of versions that nobody asks any more. Release gives it back.
func (m *Memory) Reserve(bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.held+bytes > MemoryLimit {
		if bytes > MemoryLimit || !m.dropOldestLocked() {
			return false
		}
	}
	m.held += bytes
	return true
}

// Release gives memory back.
func (m *Memory) Release(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= bytes
}

// Held returns how many bytes are taken.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// dropOldestLocked drops the row that has waited longest, if one waits.
func (m *Memory) dropOldestLocked() bool {
	var oldest *row
	for r := range m.waiting {
		if oldest == nil || r.since.Before(oldest.since) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	m.held -= oldest.bytes
	m.swapLocked(m.waiting[oldest], nil)
	return true
}

// swap makes another row wait for the next audit of a version, or none, and returns the one that waited before, if any.
// The memory of both stays taken.
func (m *Memory) swap(a *Auditor, next *row) (before *row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swapLocked(a, next)
}

func (m *Memory) swapLocked(a *Auditor, next *row) (before *row) {
	if before = a.kept.Swap(next); before != nil {
		delete(m.waiting, before)
	}
	if m.waiting == nil {
		m.waiting = map[*row]*Auditor{}
	}
	if next != nil {
		m.waiting[next] = a
	}
	return before
}
