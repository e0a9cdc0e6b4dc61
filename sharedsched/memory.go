package sharedsched

import (
	"math"
	"slices"
)

// Device memory bounds the rows of a batch, never its cost. An execution larger than any before takes memory that the
// engine then keeps for all shapes of the version, so that sizes up to that need nothing more. Telemetry knows how much
// there is for larger ones. Where it does not, and where it was wrong, the first execution that runs out of memory
// shows it.
//
// The memory of a row is known for the version, not for each shape. So batches of a shape that never ran, or only ever
// in small ones, may be as large as the largest of any shape. Were a shape bounded by its own executions, it would stay
// at one row for as long as no memory is free, although the engine has plenty. Where its rows take more memory than
// those of the largest execution, a batch of it runs out of memory, and it alone is bounded for that. A size that the
// whole version never ran is not tried while no memory is free, however long that is: there is no memory for it until
// telemetry says that some was given back.

// deviceMemory is the memory that telemetry reported last, less that taken by executions since. In bytes; both 0:
// nothing is known.
type deviceMemory struct{ free, total int64 }

// room returns the bytes that executions may still take. It reports false if that is not known.
func (m deviceMemory) room() (bytes int64, known bool) {
	return max(0, m.free-max(memoryKept, m.total/memoryKeptPart)), m != deviceMemory{}
}

// memoryBound is the bound of a shape whose executions ran out of memory. The zero value bounds nothing.
type memoryBound struct {
	most   int  // the most rows, since one ran out of memory; 0: none did, or it is long ago
	failed int  // rows of the largest one that did, meanwhile
	until  Time // when most is doubled
}

// fits returns the most rows of an execution of a shape, padding included, that memory suffices for as far as is known:
// at least 1, at most what a batch may have anyway.
func (v *version) fits(s *shape, m deviceMemory) int {
	set := &v.settings
	limit := set.padded(set.MaxBatchSize)
	if room, known := m.room(); known && set.RowMemory > 0 {
		limit = min(limit, v.proven+int(min(room/set.RowMemory, math.MaxInt32)))
	}
	if s.memory.most > 0 {
		limit = min(limit, s.memory.most)
	}
	return max(1, limit)
}

// mayTake returns the most rows of a batch of the queue for which there is memory, at most MaxBatchSize.
func (q *queue) mayTake() int {
	s := &q.version.settings
	rows := q.version.fits(q.shape, q.device.memory)
	if len(s.AllowedBatchSizes) > 0 {
		rows = max(s.trimmed(rows), s.AllowedBatchSizes[0]) // no batch is to be padded beyond it
	}
	return min(rows, s.MaxBatchSize)
}

// setMemory sets the known memory of a device.
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
		// In which order shapes are looked at makes no difference.
		for _, s := range v.shapes {
			if v.fits(s, m) != v.fits(s, before) {
				c.touchVersion(v)
				break
			}
		}
	}
}

// ranWell follows an execution that memory sufficed for.
func (c *Core) ranWell(v *version, rows int) {
	if rows <= v.proven {
		return
	}
	took := int64(rows-v.proven) * v.settings.RowMemory
	v.proven = rows
	d := v.flow.device
	if _, known := d.memory.room(); known && took > 0 {
		c.touchVersion(v)
		// Else every execution until the next reading would take the same memory.
		c.setMemory(d, deviceMemory{max(1, d.memory.free-took), d.memory.total}) // 0 might mean that nothing is known
	}
}

// ranOut follows an execution that memory did not suffice for.
func (c *Core) ranOut(now Time, s *shape, rows int) {
	u := &s.memory
	half := max(1, rows/memoryStep)
	if u.most == 0 {
		u.most, u.failed = half, rows
		c.bounded = append(c.bounded, s)
	}
	u.most, u.failed, u.until = min(u.most, half), max(u.failed, rows), now.Add(outOfMemoryFor)
	c.touchShape(s)
}

// raiseBounds lets shapes whose executions ran out of memory long enough ago try more rows again.
func (c *Core) raiseBounds(now Time) {
	c.bounded = slices.DeleteFunc(c.bounded, func(s *shape) bool {
		u := &s.memory
		if u.until > now {
			return false
		}
		c.touchShape(s)
		u.most, u.until = memoryStep*u.most, now.Add(outOfMemoryFor)
		if u.most < u.failed {
			return false
		}
		u.most, u.failed = 0, 0
		return true
	})
}
