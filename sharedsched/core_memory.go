package sharedsched

import (
	"math"
	"slices"
	"time"
)

// Device memory bounds the rows of a batch, never what it costs. An execution larger than any before takes memory that the
// engine then keeps, so that sizes up to that need nothing more; how much there is for larger ones, telemetry knows. Where it does
// not, and where it was wrong, the first execution that runs out of memory tells.
const (
	// memoryKept, or this part of the device if that is more, is left alone: readings are old, and engines take memory in pieces.
	memoryKept     = 512 << 20
	memoryKeptPart = 20 // one twentieth
	// outOfMemoryFor is how long half of a size that ran out of memory is the most, before twice of that is tried.
	outOfMemoryFor = time.Minute
)

// deviceMemory is what telemetry said last, less what executions have taken since. In bytes; both 0: nothing is known.
type deviceMemory struct{ free, total int64 }

// room returns the bytes that executions may still take. It reports false if that is not known.
func (m deviceMemory) room() (bytes int64, known bool) {
	return max(0, m.free-max(memoryKept, m.total/memoryKeptPart)), m != deviceMemory{}
}

// memoryUse is what executions of a shape have told about memory.
type memoryUse struct {
	proven int  // rows of the largest execution that ran well: what it needs is there
	cap    int  // the most rows since one ran out of memory; 0: none did, or it is long ago
	failed int  // rows of the largest one that did, meanwhile
	until  Time // when cap is doubled
}

// rows returns the most rows of an execution, padding included, that memory suffices for as far as is known: at least 1, at most
// what a batch may have anyway.
func (u *memoryUse) rows(m deviceMemory, s *Settings) int {
	limit := s.padded(s.MaxBatchSize)
	if room, known := m.room(); known && s.RowMemory > 0 {
		limit = min(limit, u.proven+int(min(room/s.RowMemory, math.MaxInt32)))
	}
	if u.cap > 0 {
		limit = min(limit, u.cap)
	}
	return max(1, limit)
}

// mayTake returns the most rows of a batch of the queue for which there is memory, at most MaxBatchSize.
func (q *queue) mayTake() int {
	s := &q.version.settings
	rows := q.shape.memory.rows(q.device.memory, s)
	if len(s.AllowedBatchSizes) > 0 {
		rows = max(s.trimmed(rows), s.AllowedBatchSizes[0]) // no batch is to be padded beyond it
	}
	return min(rows, s.MaxBatchSize)
}

// setMemory changes what is known of a device's memory.
func (c *Core) setMemory(d *device, m deviceMemory) {
	before := d.memory
	d.memory = m
	if m == before {
		return
	}
	for _, v := range c.versions {
		if v == nil || v.flow.device != d || v.settings.RowMemory == 0 {
			continue
		}
		s := &v.settings
		// In which order shapes are looked at makes no difference.
		for _, shape := range v.shapes {
			if u := &shape.memory; u.rows(m, s) != u.rows(before, s) {
				c.touchVersion(v)
				break
			}
		}
	}
}

// ranWell follows an execution that memory sufficed for.
func (c *Core) ranWell(v *version, s *shape, rows int) {
	u := &s.memory
	if rows <= u.proven {
		return
	}
	took := int64(rows-u.proven) * v.settings.RowMemory
	u.proven = rows
	d := v.flow.device
	if _, known := d.memory.room(); known && took > 0 {
		c.touchShape(s)
		// Else every execution until the next reading would take the same memory.
		c.setMemory(d, deviceMemory{max(1, d.memory.free-took), d.memory.total}) // 0 might mean that nothing is known
	}
}

// ranOut follows an execution that memory did not suffice for.
func (c *Core) ranOut(now Time, s *shape, rows int) {
	u := &s.memory
	half := max(1, rows/2)
	if u.cap == 0 {
		u.cap, u.failed = half, rows
		c.capped = append(c.capped, s)
	}
	u.cap, u.failed, u.until = min(u.cap, half), max(u.failed, rows), now.Add(outOfMemoryFor)
	c.touchShape(s)
}

// raiseCaps has shapes try more rows again whose executions ran out of memory long enough ago.
func (c *Core) raiseCaps(now Time) {
	c.capped = slices.DeleteFunc(c.capped, func(s *shape) bool {
		u := &s.memory
		if u.until > now {
			return false
		}
		c.touchShape(s)
		u.cap, u.until = 2*u.cap, now.Add(outOfMemoryFor)
		if u.cap < u.failed {
			return false
		}
		u.cap, u.failed = 0, 0
		return true
	})
}
