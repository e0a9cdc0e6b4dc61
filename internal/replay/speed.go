package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Speed is how much faster than recorded requests are sent. At 0 each is sent as soon as fewer than --concurrency wait.
type Speed float64

// UnmarshalText reads recorded, max, or a factor such as 2, 0.5 or 2x.
func (s *Speed) UnmarshalText(text []byte) error {
	switch string(text) {
	case "recorded":
		*s = 1
	case "max":
		*s = 0
	default:
		// A trailing x is what String prints.
		factor, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
		if err != nil || !(factor > 0) || math.IsInf(factor, 0) {
			return fmt.Errorf("expected recorded, max, or a factor above 0 such as 2 or 0.5, found %q", text)
		}
		*s = Speed(factor)
	}
	return nil
}

// String is the inverse of UnmarshalText.
func (s Speed) String() string {
	switch s {
	case 1:
		return "recorded"
	case 0:
		return "max"
	}
	return strconv.FormatFloat(float64(s), 'g', -1, 64) + "x"
}

// after returns how long after the first request one is due that was recorded so much after it. The speed is not 0.
func (s Speed) after(recorded time.Duration) time.Duration {
	return time.Duration(float64(recorded) / float64(s))
}
