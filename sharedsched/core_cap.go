package sharedsched

import (
	"math/bits"
	"time"
)

// The device cap bounds the device time of one batch by what the most impatient flow can wait for: a batch that runs cannot be
// taken back, so everybody who comes meanwhile waits for its end. It is capShare of the least, over the flows that ask for no
// more than their share, of each one's tenth percentile of targets. One impatient caller among many does not move that
// percentile, an aggressor is beyond its share, and what could not be met even if every batch were one row is left out, so that
// none of them can make everybody run at batch size 1.
const (
	capShareNum, capShareDen = 2, 3
	// minCap is the least device cap: below it batching would end on most models.
	minCap = 10 * time.Millisecond
	// capSteps is how many flows are looked at, at most each capStep: the cap follows after a whole round, at constant cost.
	capSteps = 16
	capStep  = time.Millisecond
	// contended is the part of the device time there is from which on, if so much is asked for at full batches' cost, not all can
	// be served in time: batches are not always full.
	contendedNum, contendedDen = 7, 10
	// recently is how long a flow counts after its latest arrival.
	recently = time.Second
)

type batchCap struct {
	most     time.Duration // device time of one batch; 0: no bound
	revision uint64        // counts changes of most

	next int  // flow to look at next
	at   Time // when flows were looked at last
	// What the round has found so far, and what the one before it found.
	round, last capRound
}

type capRound struct {
	least   time.Duration // target; 0: none
	weights float64       // of the flows that were active
	asked   time.Duration // device time per second
	row     time.Duration // the dearest execution of a single row
}

// recent is what a flow asked for lately.
type recent struct {
	seen    Time // when it arrived last, to within capStep
	targets histogram
	asked   time.Duration // device time asked for, forgotten over recently
	row     time.Duration // what an execution of a single row costs
	beyond  bool          // it asks for more than its share while all together ask for more than there is
}

func (r *recent) arrived(now Time, target, work, row time.Duration) {
	if now.Sub(r.seen) >= capStep { // forgetting each nanosecond's part at once would cost more than it tells
		r.asked = r.left(now)
		r.seen = now
	}
	r.asked += work
	r.row = row
	if target > 0 {
		r.targets.add(target)
	}
}

// left returns what of asked is not forgotten yet, in proportion to the time since.
func (r *recent) left(now Time) time.Duration {
	kept := recently - min(now.Sub(r.seen), recently)
	return time.Duration(float64(r.asked) * (float64(kept) / float64(recently)))
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
		contended := b.last.asked > recently*contendedNum/contendedDen
		r.beyond = contended && float64(asked)*b.last.weights > f.weight*float64(recently)
		if r.targets.n == 0 || target < r.row+b.last.row || r.beyond {
			continue
		}
		if b.round.least == 0 || target < b.round.least {
			b.round.least = target
		}
	}
}

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

// histogram counts durations in eight buckets per octave from shortest on, and slowly forgets.
type histogram struct {
	counts [144]uint16
	n      int
	at     int // the bucket of the tenth percentile when it was last asked for
	below  int // counts in the buckets before that
}

const (
	shortest    = 17   // log2 of the least duration told apart, 131 µs
	histogramOf = 1024 // counts are halved when there are so many
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if log := bits.Len64(uint64(d)) - 1; log >= shortest {
		i = min(8*(log-shortest)+int(d>>(log-3)&7), len(h.counts)-1)
	}
	h.counts[i]++
	if i < h.at {
		h.below++
	}
	if h.n++; h.n < histogramOf {
		return
	}
	h.n, h.at, h.below = 0, 0, 0
	for i := range h.counts {
		h.counts[i] /= 2
		h.n += int(h.counts[i])
	}
}

// low returns the tenth percentile, rounded down to its bucket; 0 if there is none. It goes on from where it was last, which is
// hardly ever far.
func (h *histogram) low() time.Duration {
	if h.n == 0 {
		return 0
	}
	for h.below > h.n/10 {
		h.at--
		h.below -= int(h.counts[h.at])
	}
	for h.below+int(h.counts[h.at]) <= h.n/10 {
		h.below += int(h.counts[h.at])
		h.at++
	}
	return time.Duration(8+h.at%8) << (shortest + h.at/8 - 3)
}
