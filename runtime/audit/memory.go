package audit

import "sync"

// MemoryLimit is how many bytes all rows that are kept for audits may take, with the copies of them that are run.
// rowLimit bounds one row, so that at least eight fit.
const MemoryLimit, rowLimit = 64 << 20, 8 << 20

// Memory counts the bytes of the rows that are kept for audits, of all versions. The zero value holds nothing. Safe for
// concurrent use.
type Memory struct {
	mu      sync.Mutex
	held    int64             // guarded by mu; bytes
	waiting map[*row]*Auditor // guarded by mu: rows that wait for their audit
}

// Reserve takes memory if there is room, or if rows that wait for audits make some: the oldest first, which are of
// versions without recent requests. Release gives it back.
func (m *Memory) Reserve(bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.held+bytes > MemoryLimit {
		// No room can be made for so much, or no row waits.
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

// dropOldestLocked drops the row that has waited longest, and reports whether one waited. The caller holds mu. It looks
// at all rows: there is at most one of each version.
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

// swap makes next wait for the next audit of a version, nil for none, and returns the row that waited before, if any.
// It does not release memory: the caller owns what it returns.
func (m *Memory) swap(a *Auditor, next *row) (before *row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swapLocked(a, next)
}

// swapLocked keeps waiting and Auditor.kept in step. The caller holds mu, which alone allows to write kept.
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
