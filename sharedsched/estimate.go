package sharedsched

import (
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
)

// All other rules ask here for the cost of a queue's executions. The cost model (package cost) answers for a shape; the
// queue keeps the answers that are needed for every task.

// fullBatch returns the most rows that one batch of the queue may have now, the expected cost of such a batch, and a
// cost that it will hardly exceed. They change only with the curve, the settings and the device, far less often than
// they are asked for, and are kept in the queue: code that changes a curve, settings or memory calls touchShape or
// touchVersion, so that only the device's revisions are looked at each time. Admission asks once and then looks at the
// queue.
func (c *Core) fullBatch(q *queue) (rows int, cost, high time.Duration) {
	d := q.device
	if now := 1 + d.state.Revision() + d.cap.revision; now != q.asOf { // neither ever decreases
		s := &q.version.settings
		q.asOf = now
		q.learning = q.shape.ColdInFlight()
		own := time.Duration(float64(s.MaxBatchCost) * d.state.Waits()) // it is of device time
		q.ownCost = q.shape.Estimate(s.padded(q.shape.MaxRows(own, s.MaxBatchSize, s.padded))).Cost
		limit := q.mayTake()
		q.most = q.shape.MaxRows(own, limit, s.padded)
		q.costBound = q.most < limit && own > 0 && q.shape.Estimate(s.padded(q.most+1)).Cost > own
		q.unmeasured = q.most < limit && !q.costBound
		q.full = q.shape.Estimate(s.padded(q.most))
		unknown := q.fullHigh == 0
		if q.fullHigh = q.high(q.most); unknown && q.fullHigh > 0 {
			c.appraise(q)
		}
		q.rowCost = q.shape.Estimate(s.padded(1)).Cost
		q.underCap = q.most
		if d.cap.most > 0 && !c.variant.NoDeviceCap && q.full.Cost > d.cap.most {
			q.underCap = max(q.shape.MaxRows(d.cap.most, q.most, s.padded), q.leastUnderCap(q.most))
		}
	}
	return q.most, q.full.Cost, q.fullHigh
}

// estimate returns the cost of an execution of that many rows; for a full batch, which is asked for most often, as of
// the last fullBatch.
func (q *queue) estimate(rows int) cost.Estimate {
	if rows == q.full.Rows {
		return q.full
	}
	return q.shape.Estimate(rows)
}

// costOf returns the expected cost of an execution with that many rows of tasks.
func (q *queue) costOf(rows int) time.Duration {
	return q.estimate(q.version.settings.padded(rows)).Cost
}

// high returns a cost that an execution of that many rows will hardly exceed; 0 where nothing was measured, for an
// unknown cost must not turn any task away.
func (q *queue) high(rows int) time.Duration {
	e := q.estimate(q.version.settings.padded(rows))
	if !e.Known() {
		return 0
	}
	return max(e.High, e.Cost+e.Cost/margin)
}

// part returns the cost of that many rows as a part of a full batch.
func (q *queue) part(rows int) time.Duration {
	if q.most == 1 {
		return q.full.Cost * time.Duration(rows)
	}
	return q.full.Cost * time.Duration(rows) / time.Duration(q.most)
}
