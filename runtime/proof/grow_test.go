package proof

import (
	"testing"
	"time"
)

// TestUseful: which size of batches is worth it, by what batches cost in milliseconds, also in trials cut short.
func TestUseful(t *testing.T) {
	for name, c := range map[string]struct {
		batches []float64 // of 2, 4, 8 and so on
		want    int
		ends    bool
	}{
		"nothing was tried":                  {want: 0},
		"a row costs next to nothing":        {batches: []float64{.01, .01, .01, .01, .01, .03}, want: 64, ends: true},
		"a batch costs the same, ever":       {batches: []float64{100, 100, 100, 100, 100, 100, 100, 100}, want: 256},
		"64 rows are as good as any":         {batches: []float64{20, 40, 80, 160, 320, 640}, want: 64},
		"128 rows gain little":               {batches: []float64{20, 36, 70, 130, 250, 450, 880}, want: 64},
		"128 rows gain enough":               {batches: []float64{20, 36, 70, 130, 250, 450, 840}, want: 128},
		"256 gain what 128 do not":           {batches: []float64{20, 36, 70, 130, 250, 450, 880, 1500}, want: 256},
		"large rows, beyond the caches":      {batches: []float64{20, 36, 80, 180, 390, 800}, want: 16, ends: true},
		"a little dearer than the best":      {batches: []float64{20, 36, 74, 152, 310, 620}, want: 64},
		"the trial ended early":              {batches: []float64{20, 36, 70}, want: 64},
		"the trial ended early, with harm":   {batches: []float64{20, 36, 110}, want: 4},
		"the trial ended beyond, for memory": {batches: []float64{20, 36, 70, 130, 250, 450, 800}, want: 128},
	} {
		t.Run(name, func(t *testing.T) {
			var costs rowCosts
			for i, batch := range c.batches {
				costs.saw(2<<i, time.Duration(batch*float64(time.Millisecond)))
			}
			if got := costs.useful(); got != c.want {
				t.Errorf("%d rows are useful, want %d", got, c.want)
			}
			if got := costs.ends(4); got != c.ends {
				t.Errorf("the trial ends: %v, want %v", got, c.ends)
			}
		})
	}
}
