package worker

import (
	"testing"
	"time"
)

// TestCharged: what the clock takes a run to have lacked bounds its device time only after a pause, because on a busy
// processor the clock spreads over all runs of a look what some of them lacked.
func TestCharged(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct{ word, elapsed, lost, want time.Duration }{
		"usual":                {20 * ms, 21 * ms, 0, 20 * ms},
		"busy processor":       {20 * ms, 30 * ms, 24 * ms, 20 * ms},
		"more than has passed": {time.Hour, 21 * ms, 0, 21 * ms},
		"less than none":       {-1, 21 * ms, 0, 0},
		"not known":            {0, 21 * ms, 5 * ms, 0},
		"pause":                {900 * ms, 1000 * ms, 800 * ms, 200 * ms},
		"pause, less used":     {100 * ms, 1000 * ms, 800 * ms, 100 * ms},
		"pause, not known":     {0, 1000 * ms, 800 * ms, 200 * ms},
	} {
		if got := charged(c.word, c.elapsed, c.lost); got != c.want {
			t.Errorf("%s: %v of %v less %v are charged as %v, want %v", name, c.word, c.elapsed, c.lost, got, c.want)
		}
	}
}
