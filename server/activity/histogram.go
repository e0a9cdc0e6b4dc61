package activity

import (
	"math/bits"
	"time"
)

// histogram counts times in buckets that are an eighth of a power of two wide, from microseconds to 71 minutes (2^32
// µs): a quantile is wrong by a sixteenth at most.
type histogram [240]uint32

// add counts a time. A longer one than the histogram reaches counts in the last bucket.
func (h *histogram) add(d time.Duration) { h[min(bucketOf(d), len(h)-1)]++ }

func (h *histogram) merge(o *histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// quantile returns the time that a part of those counted did not exceed, in milliseconds; 0 if there are none. Within
// the bucket in which it lies, times are taken to be spread evenly.
func (h *histogram) quantile(part float64) float64 {
	var all float64
	for _, n := range h {
		all += float64(n)
	}
	if all == 0 {
		return 0
	}
	left := part * all
	for i, n := range h {
		if n > 0 && float64(n) >= left {
			low, wide := bucket(i)
			return (low + wide*left/float64(n)) / 1e3
		}
		left -= float64(n)
	}
	// Rounding left a little of part*all.
	low, wide := bucket(len(h) - 1)
	return (low + wide) / 1e3
}

// bucketOf returns the bucket of a time: one for each of the first 8 microseconds, then 8 for each power of two. The
// three bits behind the leading one tell which of the eight. It may be beyond the last bucket.
func bucketOf(d time.Duration) int {
	us := uint64(max(0, d) / time.Microsecond)
	if us < 8 {
		return int(us)
	}
	e := bits.Len64(us) - 1
	return (e-2)*8 + int(us>>(e-3))&7
}

// bucket returns where a bucket begins, and how wide it is, in microseconds.
func bucket(i int) (low, wide float64) {
	if i < 8 {
		return float64(i), 1
	}
	e := i/8 + 2
	return float64(uint64(8+i%8) << (e - 3)), float64(uint64(1) << (e - 3))
}
