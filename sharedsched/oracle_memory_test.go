package sharedsched

import "slices"

// oracleMemory is the free memory of the device, as far as it may be used. Unknown memory never runs out.
type oracleMemory struct {
	known bool
	room  int64
}

// size returns the rows of the largest execution of the queue, padding included, that memory suffices for. One row is
// always tried.
func (q *oracleQueue) size(m oracleMemory) int {
	rows := 1
	for rows < q.padded(q.version.MaxBatchSize) && q.fits(rows+1, m) {
		rows++
	}
	return rows
}

func (q *oracleQueue) fits(rows int, m oracleMemory) bool {
	if *q.cap > 0 && rows > *q.cap {
		return false
	}
	return !m.known || rows <= q.version.proven || q.version.RowMemory*int64(rows-q.version.proven) <= m.room
}

// ranWell notes that memory sufficed for an execution, and that there is less for others if it was larger than all
// before.
func (o *oracle) ranWell(now Time, q *oracleQueue, rows int) {
	v := q.version
	if rows <= v.proven {
		return
	}
	more := int64(rows - v.proven)
	v.proven = rows
	if o.memory.known && v.RowMemory > 0 {
		o.setFree(now, o.free-more*v.RowMemory,
			slices.DeleteFunc(slices.Clone(o.queues), func(q *oracleQueue) bool { return q.version != v })...)
	}
}

// ranOut halves the rows that the queue may have.
func (o *oracle) ranOut(now Time, q *oracleQueue, rows int) {
	half := max(1, rows/2)
	if *q.cap == 0 || half < *q.cap {
		*q.cap = half
	}
	of := func(other *oracleQueue) bool { return other.shape != q.shape }
	o.look(now, slices.DeleteFunc(slices.Clone(o.queues), of)...)
}

// setFree changes the free memory and looks at the queues to which that matters: first at those given, then at all of
// the versions whose executions may be larger or smaller than before.
func (o *oracle) setFree(now Time, free int64, changed ...*oracleQueue) {
	before := o.memory
	o.free, o.memory = max(free, 0), oracleMemory{true, max(0, free-max(512<<20, o.total/20))}
	for i := range o.versions {
		v := &o.versions[i]
		of := func(q *oracleQueue) bool { return q.version == v }
		if !slices.ContainsFunc(o.queues,
			func(q *oracleQueue) bool { return of(q) && q.size(before) != q.size(o.memory) }) {
			continue
		}
		for _, q := range o.queues {
			if of(q) && !slices.Contains(changed, q) {
				changed = append(changed, q)
			}
		}
	}
	o.look(now, changed...)
}
