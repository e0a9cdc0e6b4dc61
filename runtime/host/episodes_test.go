package host_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/host"
)

// TestAVersionStaysForItsEpisodes: it is asked about once a second, and goes when none runs.
func TestAVersionStaysForItsEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Int64 // UnixNano; 0: it was never used
		var asked atomic.Int64
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.LastUse = func(model string, version int64) time.Time {
				if model != "m" || version != 1 {
					t.Errorf("asked about %s/%d", model, version)
				}
				asked.Add(1)
				if at := last.Load(); at != 0 {
					return time.Unix(0, at)
				}
				return time.Time{}
			}
		})
		w.add("m", 1, times(1), nil)
		w.load("m")
		last.Store(time.Now().UnixNano())
		w.add("m", 2, times(2), nil)
		w.choose("m", 2)
		w.Follow(w.listing)
		time.Sleep(5500 * time.Millisecond)
		w.states("m/1 ready", "m/2 ready")
		if n := asked.Load(); n != 6 {
			t.Errorf("asked %d times in 5.5 s", n)
		}
		last.Store(0)
		time.Sleep(time.Second)
		synctest.Wait()
		w.states("m/2 ready")
	})
}
