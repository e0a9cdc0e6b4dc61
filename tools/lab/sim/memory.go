package sim

import "time"

// memory is the memory of the device. A model holds, for good, the memory that its largest execution so far needed.
type memory struct {
	total int64   // 0: as much as is asked for
	rows  []int64 // by model: of that execution
	held  int64   // by all models
}

func newMemory(s *Setup) memory {
	return memory{total: s.Device.Memory, rows: make([]int64, len(s.Models))}
}

// free returns the memory that is not held.
func (m *memory) free(now *Pace) int64 { return max(0, m.total-now.Taken-m.held) }

// take lets a model hold the memory for an execution of that many rows. It reports false where there is not that much.
func (m *memory) take(of *Model, model, rows int, now *Pace) bool {
	more := (int64(rows) - m.rows[model]) * of.RowMemory
	if more <= 0 {
		return true
	}
	if m.total > 0 && more > m.free(now) {
		return false
	}
	m.rows[model], m.held = int64(rows), m.held+more
	return true
}

// cost returns how long a batch takes on the device in its reference state. Where memory does not suffice that is found
// out at the end, and the batch runs once more in two halves. The requests of a half for which it does not suffice
// either fail.
func (m *memory) cost(of *Model, b *Batch, now *Pace) time.Duration {
	size := max(b.Size, b.Rows)
	total := of.Cost(size)
	if m.take(of, b.Model, size, now) {
		return total
	}
	b.OutOfMemory = true
	left := len(b.Requests) / 2
	if left == 0 {
		b.Requests[0].failed = true
		return total
	}
	for _, half := range [][]*Request{b.Requests[:left], b.Requests[left:]} {
		rows := 0
		for _, r := range half {
			rows += r.Rows
		}
		total += of.Cost(rows)
		fits := m.take(of, b.Model, rows, now)
		for _, r := range half {
			r.failed = !fits
		}
	}
	return total
}
