package sim

import (
	"strings"
	"testing"
	"time"
)

// TestSettle has batches that begin every millisecond, the first at the change; x: one that was expected wrongly.
func TestSettle(t *testing.T) {
	const good = "........."
	for batches, want := range map[string]int{
		good:                          0,
		"x" + good:                    1,
		"xxxx" + good:                 4, // fewer than half of nine
		"xxxxxxxxxxx" + good:          11,
		"xx.xx..x." + good:            8,  // five of eight
		"xxxx" + good + "x" + good:    4,  // a stall
		".x" + good:                   0,  // one of two
		"....xxx.." + good:            0,  // three of seven
		good + "xxxx" + good:          0,  // exceptions
		good + "xxxxx" + good:         14, // but these are not
		"x" + good + "xx.xxx." + good: 16,
		strings.Repeat("x.", 9):       17,
	} {
		predictions := []Prediction{{End: 0, Took: time.Millisecond, Error: 1}} // began before
		for i, b := range batches {
			p := Prediction{End: Time(i+1) * Time(time.Millisecond), Took: time.Millisecond, Error: backUnder / 2}
			if b == 'x' {
				p.Error = backUnder
			}
			predictions = append(predictions, p)
		}
		// ended after the next change
		predictions = append(predictions, Prediction{End: Time(time.Hour), Took: time.Millisecond, Error: 1})
		s := settle(predictions, 0, Time(time.Hour))
		if back := min(want, len(batches)-1); s.Batches != want || s.Back != time.Duration(back)*time.Millisecond {
			t.Errorf("%s: %d batches, %v, want %d", batches, s.Batches, s.Back, want)
		}
		if wrong := strings.Count(batches[:atOnce], "x") > atOnce/2; (s.Error >= backUnder) != wrong {
			t.Errorf("%s: an error of %v at once", batches, s.Error)
		}
	}
	if s := settle(make([]Prediction, judged-1), 0, Never); s != (Settling{}) {
		t.Errorf("%+v of too few batches", s)
	}
}
