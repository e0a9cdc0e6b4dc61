package predict

import (
	"testing"
	"time"
)

// TestSomeOfTheDeadlineIsKeptForDelivery: a fiftieth, at most 10 ms, and nothing of a deadline that has passed.
func TestSomeOfTheDeadlineIsKeptForDelivery(t *testing.T) {
	now := time.Now()
	for given, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  19600 * time.Microsecond,
		500 * time.Millisecond: 490 * time.Millisecond,
		time.Minute:            time.Minute - 10*time.Millisecond,
		-time.Second:           -time.Second,
	} {
		if got := AnswerBy(now, now.Add(given)).Sub(now); got != want {
			t.Errorf("of %v the answer gets %v, want %v", given, got, want)
		}
	}
}
