package sim

import (
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Variants returns the server's scheduler with one of its parts changed or taken out, to see what each is worth.
func Variants() []Maker {
	return []Maker{
		fairWindow("no fairness window", 0),
		fairWindow("window 20 ms", 20*time.Millisecond),
		fairWindow("window 100 ms", 100*time.Millisecond),
		fairWindow("no fairness", time.Hour),
		Core("fixed batch cost", CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) { s.Adaptive = false }}),
		Core("powers of two", CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) {
			s.AllowedBatchSizes = []int{1, 2, 4, 8, 16, 32, 64}
		}}),
	}
}

func fairWindow(name string, w time.Duration) Maker {
	return Core(name, CoreOptions{Config: func(c *sharedsched.Config) { c.FairnessWindow = w }})
}
