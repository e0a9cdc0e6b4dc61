package sharedsched

import "time"

// Where executions come in allowed sizes, rows between two of them are padded up to the larger, or some are left for
// the next execution so that the smaller one is full: whichever costs less device time per row.

// size returns how many rows the next batch takes of those it could have. Where whole tasks fill a smaller size, it
// takes them if that costs less per row, as TensorFlow Serving's MINIMIZE_TPU_COST_PER_REQUEST does. Where a task would
// have to be cut for that, or be left so that the batch is not full either, it must cost less in all: its caller waits
// for the rows that are left over.
func (c *Core) size(q *queue, most int) int {
	s := &q.version.settings
	if len(s.AllowedBatchSizes) == 0 {
		return most
	}
	rows := min(most, q.waiting)
	up, down := s.padded(rows), s.trimmed(rows)
	if down == 0 || down == rows {
		return most
	}
	taken, cut := c.fill(q, down)
	switch cost := q.estimate(up).Cost; {
	case cut || taken < down:
		if q.estimate(s.padded(taken)).Cost+q.inParts(rows-taken, down) >= cost {
			return most
		}
	default:
		// By cost per row, compared crosswise: divisions would round.
		if int64(cost)*int64(down) <= int64(q.estimate(down).Cost)*int64(rows) {
			return most
		}
	}
	return down
}

// fill returns how many rows of the first tasks an execution of that many takes, and whether it cuts one: the first
// that by itself has more than that.
func (c *Core) fill(q *queue, rows int) (taken int, cut bool) {
	for i := 0; i < q.ring.Len() && taken < rows; i++ {
		t := &c.tasks[q.ring.At(i).Task]
		left := t.rows - t.next
		if left > rows {
			return rows, true
		}
		if left > rows-taken {
			break
		}
		taken += left
	}
	return taken, false
}

// piece returns how many rows are executed at a time of a task of that many rows without company: all, unless its parts
// cost less.
func (q *queue) piece(rows int) int {
	s := &q.version.settings
	down := s.trimmed(rows)
	if down == 0 || down == rows || q.inParts(rows, down) >= q.estimate(s.padded(rows)).Cost {
		return rows
	}
	return down
}

// inParts returns the cost of rows in executions of that many each.
func (q *queue) inParts(rows, each int) time.Duration {
	s := &q.version.settings
	cost := q.estimate(s.padded(each)).Cost * time.Duration(rows/each)
	if rest := rows % each; rest > 0 {
		cost += q.estimate(s.padded(rest)).Cost
	}
	return cost
}
