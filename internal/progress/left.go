package progress

import (
	"fmt"
	"time"
)

// Left says how long the rest will take, if it goes on like the part of it (0 to 1) that took so long. It is "" at part
// 0, when nothing is known, and at part 1.
func Left(took time.Duration, part float64) string {
	if part <= 0 || part >= 1 {
		return ""
	}
	left := time.Duration(float64(took) * (1 - part) / part)
	return fmt.Sprintf(", about %v left", left.Round(time.Second))
}

// Bytes returns a function that says how many bytes of something are done, with the rate and the time left. count
// returns the bytes that are done, and of how many; 0 is unknown. Before the first byte it says how long that is waited
// for. One goroutine may call it.
func Bytes(what string, count func() (done, of int64)) func() string {
	asked := time.Now()
	var begun time.Time
	var before int64 // when the first were there: what came meanwhile is no rate
	return func() string {
		done, of := count()
		now := time.Now()
		if done == 0 {
			return fmt.Sprintf("%s: waiting for it, %v so far", what, now.Sub(asked).Round(time.Second))
		}
		// The wait for the first bytes is no part of the rate.
		if begun.IsZero() {
			begun, before = now, done
		}
		line := what + ": " + megabytes(done)
		if of > 0 {
			line += " of " + megabytes(of)
		}
		line += " MB"
		if took := now.Sub(begun); took > 0 && done > before {
			line += fmt.Sprintf(", %.1f MB/s", float64(done-before)/1e6/took.Seconds())
			line += Left(took, float64(done-before)/float64(max(of-before, 1)))
		}
		return line
	}
}

// megabytes returns a number of bytes in units of a million.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
