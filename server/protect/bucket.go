package protect

import "time"

// bucket is a token bucket. It begins full.
type bucket struct {
	used float64 // tokens that are missing
	at   time.Time
}

// take takes tokens, and reports whether there were so many, in a bucket that holds burst and gets rate a second.
func (b *bucket) take(now time.Time, tokens, burst, rate float64) bool {
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(0, b.used-passed.Seconds()*rate)
		b.at = now
	}
	b.used += tokens
	return b.used <= burst
}

// give puts tokens back.
func (b *bucket) give(tokens float64) { b.used = max(0, b.used-tokens) }
