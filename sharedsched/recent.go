package sharedsched

import (
	"math/bits"
	"time"
)

// The work that a flow has asked for of late decides whether it is within its share (share.go), and its targets
// how long a batch may take (cap.go).

// recent holds the work and the targets that a flow asked for lately.
type recent struct {
	fading
	targets histogram
	asked   float64       // device time, in nanoseconds
	row     time.Duration // the latest queue's cost of an execution of a single row
	known   bool          // that was measured
	named   bool          // the latest task or its settings named a target
}

// arrived notes that rows of a queue were asked for. target is the time from the arrival until an answer is wanted, 0
// for none that counts.
func (r *recent) arrived(now Time, q *queue, target time.Duration, rows int) {
	r.ran(now, 0)
	if target > 0 {
		r.targets.add(target)
	}
	r.row, r.known = q.rowCost, q.fullHigh > 0
	if q.fullHigh > 0 { // a guess must put no flow beyond its share
		r.asked += float64(float64(rows) * q.costPerRow(now, r.targets.low())) // rounded, so that a trace replays anywhere
	}
	q.kin.rate.rows += float64(rows)
}

// ran adds to the device time that was asked for, or that a task took that ran alone, because nothing was noted when
// it came.
func (r *recent) ran(now Time, used time.Duration) {
	r.asked = float64(r.asked*r.fade(now)) + float64(used)
	if r.began == now {
		r.began = now.Add(-used) // for so long it has run
	}
}

// rate counts the rows of a version and key that were asked for lately.
type rate struct {
	fading
	rows float64
}

// costPerRow returns the device time, in nanoseconds, of a row in batches that start when the first of their tasks
// must.
func (q *queue) costPerRow(now Time, target time.Duration) float64 {
	r := &q.kin.rate
	r.rows *= r.fade(now)
	rows := 1
	if s := &q.version.settings; s.Batched {
		rows = min(q.most, 1+int(r.rows*target.Seconds()/r.over(now, target).Seconds()))
	}
	return float64(q.estimate(q.version.settings.padded(rows)).Cost) / float64(rows)
}

// fading is a count that is forgotten over askedFor, in proportion to the time since it was last added to.
type fading struct {
	seen  Time // to within sweepStep
	began Time // when it was first added to, or again after targetsFor
}

// over returns the time in which that was counted: where that began not long ago, since then, but at least some time,
// for a burst is no flood.
func (f *fading) over(now Time, least time.Duration) time.Duration {
	return min(askedFor, max(now.Sub(f.began), least, sweepStep))
}

// fade returns the part of the count that is left, which the caller is to keep.
func (f *fading) fade(now Time) float64 {
	if now.Sub(f.seen) < sweepStep { // to forget each nanosecond's part at once would cost more than it is worth
		return 1
	}
	kept := f.kept(now)
	if f.seen == 0 || now.Sub(f.seen) > targetsFor {
		f.began = now
	}
	f.seen = now
	return kept
}

// kept returns the part of the count that is not forgotten yet.
func (f *fading) kept(now Time) float64 {
	return float64(askedFor-min(now.Sub(f.seen), askedFor)) / float64(askedFor)
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
