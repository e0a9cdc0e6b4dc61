package record

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// entryBytes is roughly the size of an entry without its messages, in memory and as JSON.
const entryBytes = 512

// Stats counts the entries that were to be recorded, by their state: each is counted in exactly one of the first four.
type Stats struct {
	// Written entries were handed to the operating system, which holds them safe if this process ends. Those of a file
	// that was ended are safe from a failure of the machine too, unless the log said otherwise.
	Written int64
	// Dropped entries found no room in the queue, or came after Close.
	Dropped int64
	// Lost entries could not be written: the disk was full or failed, or Close ran out of time.
	Lost int64
	// Pending entries wait to be written.
	Pending int64
	// Bytes of the entries written.
	Bytes int64
	// Deleted files made room for newer ones: see Config.MaxBytes.
	Deleted int64
}

// Missed is how many entries are not recorded and will not be.
func (s Stats) Missed() int64 { return s.Dropped + s.Lost }

// queue holds the entries that wait to be written, and counts how they end. Callers of the Writer add to it, and its
// goroutine takes from it.
type queue struct {
	maxEntries int64
	maxBytes   int64
	wake       chan struct{} // of capacity 1: a signal that was not seen yet stands for all since

	// mu is held for moments only: callers serve requests.
	mu      sync.Mutex
	waiting []item // guarded by mu; entries not taken yet
	bytes   int64  // guarded by mu; of the pending entries, taken or not
	stats   Stats  // guarded by mu
	closed  bool   // guarded by mu; nothing is taken in any more
}

// item is an entry with its size, so that the size is subtracted as it was added.
type item struct {
	entry Entry
	bytes int64 // its approximate size in memory, and in the file
}

// newQueue returns an empty queue within the bounds of a configuration.
func newQueue(c *Config) *queue {
	return &queue{maxEntries: int64(c.MaxPending), maxBytes: c.MaxPendingBytes, wake: make(chan struct{}, 1)}
}

// offer takes an entry in, or drops it. An entry that alone exceeds the bound of bytes is always dropped. The size is
// computed without the lock.
func (q *queue) offer(e Entry) {
	it := item{entry: e, bytes: int64(entryBytes + len(e.Message) + proto.Size(e.Request) + proto.Size(e.Response))}
	if q.admit(it) {
		q.signal()
	}
}

// mayHold reports whether there is room for the smallest entry. If not, it counts one as dropped, and the caller makes
// none.
func (q *queue) mayHold() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasRoomLocked(entryBytes)
}

// hasRoomLocked reports whether an entry of so many bytes fits, or counts it as dropped. The caller holds mu.
func (q *queue) hasRoomLocked(bytes int64) bool {
	if q.closed || q.stats.Pending >= q.maxEntries || q.bytes+bytes > q.maxBytes {
		// It is counted here, so that no caller can forget it.
		q.stats.Dropped++
		return false
	}
	return true
}

// admit appends an item if it fits.
func (q *queue) admit(it item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.hasRoomLocked(it.bytes) {
		return false
	}
	q.waiting = append(q.waiting, it)
	q.stats.Pending++
	q.bytes += it.bytes
	return true
}

// signal wakes the writer. It never waits.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns all items that wait, in exchange for an empty slice whose memory the queue may use. closed says that no
// more will follow. The items stay pending until settle.
func (q *queue) take(empty []item) (taken []item, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken, q.waiting = q.waiting, empty
	return taken, q.closed
}

// settle ends items that were taken: so many of them were written, in so many bytes, and the others are lost.
func (q *queue) settle(items []item, written int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range items {
		q.bytes -= items[i].bytes
	}
	q.stats.Pending -= int64(len(items))
	q.stats.Written += int64(written)
	q.stats.Lost += int64(len(items) - written)
	q.stats.Bytes += bytes
}

// close lets no more entries in, and wakes the writer for the last ones.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// snapshot returns the counts of one moment. Deleted is not among them.
func (q *queue) snapshot() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}
