package sharedsched

import (
	"math/bits"
	"time"
)

// The work that a flow asked for in the last second decides whether it is within its share, and its targets how long a
// batch may take (cap.go).

// recent holds the work and the targets that a flow asked for lately.
type recent struct {
	seen    Time // when it arrived last, to within capStep
	targets histogram
	asked   time.Duration // device time asked for, forgotten over recently
	row     time.Duration // cost of an execution of a single row
	beyond  bool          // it asks for more than its share while all together ask for more than there is
}

// arrived notes that device time for work was asked for. target is the time from the arrival until an answer is wanted,
// 0 for none that counts; row is the cost of a single row.
func (r *recent) arrived(now Time, target, work, row time.Duration) {
	if now.Sub(r.seen) >= capStep { // forgetting each nanosecond's part at once would cost more than it is worth
		r.asked = r.left(now)
		r.seen = now
	}
	r.asked += work
	r.row = row
	if target > 0 {
		r.targets.add(target)
	}
}

// left returns the part of asked that is not forgotten yet, in proportion to the time since.
func (r *recent) left(now Time) time.Duration {
	kept := recently - min(now.Sub(r.seen), recently)
	return time.Duration(float64(r.asked) * (float64(kept) / float64(recently)))
}

// histogram counts durations in eight buckets per octave from shortest on, and slowly forgets.
type histogram struct {
	counts [144]uint16
	n      int
	at     int // the bucket of the tenth percentile when it was last asked for
	below  int // counts in the buckets before that
}

// add counts a duration. Older counts fade as more come: they are halved every histogramOf.
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

// low returns the tenth percentile, rounded down to its bucket; 0 if there is none. It goes on from where it was last,
// which is hardly ever far.
func (h *histogram) low() time.Duration {
	if h.n == 0 {
		return 0
	}
	for h.below > h.n/capPercentile {
		h.at--
		h.below -= int(h.counts[h.at])
	}
	for h.below+int(h.counts[h.at]) <= h.n/capPercentile {
		h.below += int(h.counts[h.at])
		h.at++
	}
	return time.Duration(8+h.at%8) << (shortest + h.at/8 - 3)
}
