package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/host"
)

// TestAVersionStaysForItsEpisodes: it is asked about once a second, and goes when none runs.
func TestAVersionStaysForItsEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		asked := 0
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.LastUse = func(model string, version int64) time.Time {
				if model != "m" || version != 1 {
					t.Errorf("asked about %s/%d", model, version)
				}
				asked++
				return last
			}
		})
		w.add("m", 1, times(1), nil)
		w.load("m")
		last = time.Now()
		w.add("m", 2, times(2), nil)
		w.choose("m", 2)
		w.Follow(w.listing)
		time.Sleep(5500 * time.Millisecond)
		w.states("m/1 ready", "m/2 ready")
		if asked != 6 {
			t.Errorf("asked %d times in 5.5 s", asked)
		}
		last = time.Time{}
		time.Sleep(time.Second)
		synctest.Wait()
		w.states("m/2 ready")
	})
}
