package sharedsched

// A batch is a prefix of its queue. Its rows are the least of what these allow, and boundOf says which it was: the
// settings, memory and what was measured (fullBatch), deadlines (giveUp), the device cap (mayTakeNow), tasks that may
// arrive while background work runs (mayBlock), and, after all of them, the allowed sizes (size).

// form takes a prefix of the queue into b, after dropping heads that are to be given up: as many tasks as fit the rows
// that one batch may have. A task of more rows than this batch may have now is split, one that would fit the next batch
// whole is left for it. A batch with room takes tasks of other flows along (along.go). Behind foreground tasks,
// background ones only take the place of padding: no task waits longer because of them. It reports false where all of
// the queue's tasks for the batch were given up.
func (c *Core) form(now Time, q *queue, b *Batch, out *Answer) bool {
	v := q.version
	s := &v.settings
	b.Version, b.Spans, b.Rows, b.Padded = v.id, b.Spans[:0], 0, 0
	b.Alone, b.Reason, q.rest = false, FlushUnspecified, BoundNone
	w := c.giveUp(now, q, out)
	room := w.rows
	if room == 0 {
		return false
	}
	if t := &c.tasks[q.ring.At(0).Task]; t.alone || !s.Batched {
		b.Alone, b.Reason = true, FlushUnbatched
		c.takeRows(now, q, t.rows-t.next, b)
		b.Padded = b.Rows
		return true
	}
	largest := min(q.planned, c.mayTakeNow(now, q)) // no longer than others expect it to be
	guarded := min(room, largest, c.mayBlock(now, q))
	most := c.size(q, guarded)
	hurried := room < min(largest, q.waiting) // deadlines, not sizes, made the batch as small as it is
	head := q.ring.At(0).order
	full := false
	if q.flow.beyond && classOf(head) == foreground { // the flows that ask for no more than their share go first
		if full = c.takeOwn(now, q, b, most, 1); !full {
			full = c.takeAlong(now, q, b, most, window{}, true, out)
		}
	}
	if !full {
		full = c.takeOwn(now, q, b, most, q.ring.Len())
	}
	if !full && classOf(head) == foreground {
		if full = c.takeAlong(now, q, b, most, w, false, out); !full {
			c.takeBehind(now, q, b, most)
		}
	}
	b.Padded = s.padded(b.Rows)
	if b.Reason = c.flushReason(now, q, full && most == largest, most); hurried {
		b.Reason = FlushDeadline
	}
	if q.waiting > 0 && full {
		q.rest = q.boundOf(room, largest, guarded, most)
	}
	return true
}

// boundOf says which bound on the rows of a batch was the least. It gets the rows that deadlines allow, that the device
// cap allows, the least of these and the guard against background work, and the least of all with the allowed sizes.
func (q *queue) boundOf(deadlines, largest, guarded, most int) Bound {
	switch {
	case most < guarded:
		return BoundAllowedSizes
	case guarded < min(deadlines, largest):
		return BoundBackground
	case largest <= deadlines && largest < q.most:
		return BoundDeviceCap
	case deadlines < q.most:
		return BoundDeadlines
	case q.costBound:
		return BoundCost
	case q.unmeasured:
		return BoundUnmeasured
	case q.most < q.version.settings.MaxBatchSize:
		return BoundMemory
	}
	return BoundSize
}

// takeOwn takes up to n tasks until the batch has so many rows, and reports whether no other could join.
func (c *Core) takeOwn(now Time, q *queue, b *Batch, most, n int) (full bool) {
	for ; n > 0 && q.ring.Len() > 0 && !full; n-- {
		t := &c.tasks[q.ring.At(0).Task]
		if t.alone || b.Rows > 0 && classOf(t.order) != classOf(c.get(b.Spans[0].task).order) {
			break // it gets a batch of its own, or a place in the padding
		}
		left, room := t.rows-t.next, most-b.Rows
		// A task that the next batch can hold is not split: its caller would wait for both.
		if left <= room || left > most {
			c.takeRows(now, q, min(left, room), b)
		}
		full = left >= room
	}
	return full
}

// takeBehind takes background tasks that fit in whole in the place of padding.
func (c *Core) takeBehind(now Time, q *queue, b *Batch, most int) {
	room := min(most, q.version.settings.padded(b.Rows))
	for q.ring.Len() > 0 {
		t := &c.tasks[q.ring.At(0).Task]
		left := t.rows - t.next
		if t.alone || left > room-b.Rows {
			break
		}
		c.takeRows(now, q, left, b)
	}
}

// flushReason says why the batch is as it is: the first reason that would have been enough by itself. full: it has as
// many rows as it may have, which is most.
func (c *Core) flushReason(now Time, q *queue, full bool, most int) FlushReason {
	s := &q.version.settings
	switch {
	case full && most == 1 && s.MaxBatchCost > 0 && unwaited(q.device, q.rowCost) > s.MaxBatchCost:
		return FlushSingleRequestOverBudget
	case full && (q.costBound || most < q.most):
		return FlushBudgetReached
	case full:
		return FlushFull
	case q.version.closing || c.draining || c.hurrying:
		return FlushDrain
	case s.BatchTimeout == 0 || q.begun:
	case q.oldest.Add(s.BatchTimeout) > now:
		return FlushDeadline
	default:
		return FlushTimeout
	}
	return FlushDeviceIdle
}

// takeRows moves rows of the head task from the queue into the batch. The task keeps its place while it has rows left.
func (c *Core) takeRows(now Time, q *queue, rows int, b *Batch) {
	slot := q.ring.At(0).Task
	t := &c.tasks[slot]
	if t.next == 0 {
		t.started = now
		t.outcome.Queue = now.Sub(t.arrival)
	}
	b.Spans = append(b.Spans, Span{First: t.next, Rows: rows, task: c.handle(slot)})
	b.Rows += rows
	t.next += rows
	t.running += rows
	q.waiting -= rows
	if t.next == t.rows {
		c.unqueue(now, q, t, taskRunning)
	} else {
		q.spend(t, rows)
		q.goOn(t, slot)
	}
}
