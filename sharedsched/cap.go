package sharedsched

import "time"

// The device cap bounds the device time of one batch by how long the most impatient flow can wait: a running batch
// cannot be taken back, so every task that arrives meanwhile waits for its end. It is capShare of the least, over the
// flows that ask for no more than their share, of each one's tenth percentile of targets. One impatient caller among
// many does not move that percentile, an aggressor is beyond its share, and a target that could not be met even if
// every batch were one row is left out, so that none of them can make all flows run at batch size 1.

// batchCap is the device cap of one device.
type batchCap struct {
	most     time.Duration // device time of one batch; 0: no bound
	revision uint64        // counts changes of most

	next int  // flow to look at next
	at   Time // when flows were looked at last
	// The findings of the present round so far, and those of the one before it.
	round, last capRound
}

// capRound holds the findings of a round over all flows.
type capRound struct {
	least   time.Duration // target; 0: none
	weights float64       // of the flows that were active
	asked   time.Duration // device time per second
	row     time.Duration // the dearest execution of a single row
}

// sweep looks at the next few flows of the device, and sets the cap when all have been looked at.
func (c *Core) sweep(now Time, d *device) {
	b := &d.cap
	if now.Sub(b.at) < capStep {
		return
	}
	b.at = now
	for range min(capSteps, len(c.flows)) {
		if b.next >= len(c.flows) {
			b.next = 0
			b.close()
			return
		}
		f := c.flows[b.next]
		b.next++
		if f == nil || f.device != d || now.Sub(f.recent.seen) > recently {
			continue
		}
		r := &f.recent
		asked := r.left(now)
		b.round.weights += f.weight
		b.round.asked += asked
		b.round.row = max(b.round.row, r.row)
		target := r.targets.low()
		each := d.parallel()
		contended := b.last.asked/each > recently*contendedNum/contendedDen
		r.beyond = contended && float64(asked/each)*b.last.weights > f.weight*float64(recently)
		if r.targets.n == 0 || target < r.row+b.last.row || r.beyond {
			continue
		}
		if b.round.least == 0 || target < b.round.least {
			b.round.least = target
		}
	}
}

// close ends a round: the cap follows from what it found.
func (b *batchCap) close() {
	b.last, b.round = b.round, capRound{}
	limit := time.Duration(0)
	if b.last.least > 0 {
		limit = max(minCap, b.last.least*capShareNum/capShareDen)
	}
	if limit != b.most {
		b.most = limit
		b.revision++
	}
}
