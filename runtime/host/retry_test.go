package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
)

// TestBackoff: a version that fails is tried again after ever longer times, at once when its files change, and no more
// once it is ready.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		old := times(1)
		w.add("m", 1, old, nil)
		w.reconcile()
		var attempts []time.Time
		failing := func(context.Context) (engine.Opened, error) {
			attempts = append(attempts, time.Now())
			return engine.Opened{}, errors.New("cut short")
		}
		w.add("m", 2, failing, nil)
		w.choose("m", 2)
		w.reconcile()
		time.Sleep(time.Hour) // of the bubble's clock
		synctest.Wait()
		for i := range attempts[1:] {
			gap, want := attempts[i+1].Sub(attempts[i]).Seconds(), min(float64(int(1)<<i), 300)
			if gap < 0.8*want || gap > 1.2*want+0.001 {
				t.Errorf("%.2f s between attempts %d and %d, want %v ± 20 %%", gap, i+1, i+2, want)
			}
		}
		// 1 + 2 + ... + 256 s are 511 s; the rest of the hour has an attempt every 300 s.
		if n := len(attempts); n < 16 || n > 24 {
			t.Errorf("%d attempts in an hour", n)
		}
		if cause := w.version("m", 2).Cause; !strings.Contains(cause,
			fmt.Sprintf("cut short (attempt %d, next in ", len(attempts))) {
			t.Errorf("after %d attempts: cause %q", len(attempts), cause)
		}
		if n := w.Counts().LoadFailures; n != uint64(len(attempts)) {
			t.Errorf("%d failures are counted of %d", n, len(attempts))
		}
		w.states("m/1 ready", "m/2 failed")

		before := len(attempts)
		w.put("m", 2, failing, "second")
		w.reconcile()
		if len(attempts) != before+1 || w.version("m", 2).Cause != "cut short" {
			t.Errorf("%d attempts at once after the files changed, cause %q", len(attempts)-before,
				w.version("m", 2).Cause)
		}
		w.engine(w.listing.Models[0].Versions[1].Path, times(2)) // as if a file next to it had come
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.states("m/2 ready")
		if old.Closed() != 1 {
			t.Errorf("the old version was closed %d times", old.Closed())
		}
		if n := w.Counts(); n.Loads != 2 || n.Unloads != 1 {
			t.Errorf("counted %+v", n)
		}
	})
}

// TestAFailedReplacementIsTriedAgain: the same for new files under the number of a version that serves.
func TestAFailedReplacementIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m", 1, times(1), nil)
		w.reconcile()
		w.put("m", 1, errors.New("cut short"), "second")
		w.reconcile()
		w.answers(w.version("m", 1), 3)
		w.engine(w.listing.Models[0].Versions[0].Path, times(2))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.answers(w.version("m", 1), 6)
	})
}

// TestTheFirstListingIsTriedAgain: nothing else must happen for it.
func TestTheFirstListingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m", 1, errors.New("cut short"), nil)
		w.reconcile()
		w.states("m/1 failed")
		w.engine(w.listing.Models[0].Versions[0].Path, times(2))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.states("m/1 ready")
	})
}

// TestTryOnce: a caller that only wants to know whether a model can be loaded gets the cause as it is.
func TestTryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, 1, func(c *host.Config) { c.TryOnce = true })
		attempts := 0
		w.add("m", 1, func(context.Context) (engine.Opened, error) {
			attempts++
			return engine.Opened{}, errors.New("cut short")
		}, nil)
		if cause := w.load("m").Cause; cause != "cut short" {
			t.Errorf("cause %q", cause)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if attempts != 1 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// TestTheNextInLineIsTriedAtOnce: a version that failed to take the place of one that served does not wait for its turn
// once that is lost, whether it lies under the same number or under another.
func TestTheNextInLineIsTriedAtOnce(t *testing.T) {
	for what, next := range map[string]func(*world, any){
		"new files": func(w *world, engine any) { w.put("m", 1, engine, "second") },
		"a newer version": func(w *world, engine any) {
			w.add("m", 2, engine, nil)
			w.choose("m", 2)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m := newFleet(t, time.Millisecond, "a", "b")
				w.add("m", 1, m.open, tiny)
				w.load("m")
				attempts, whole := 0, false
				next(w, func(device string) (engine.Opened, error) {
					if attempts++; !whole {
						return engine.Opened{}, errors.New("cut short")
					}
					return m.open(device)
				})
				w.load("m")
				time.Sleep(20 * time.Minute) // it waits for 4 minutes and more by now
				synctest.Wait()
				w.on("m", 1, "a")
				whole = true
				before := attempts
				w.LoseDevice("a", errors.New("fell off the bus"))
				time.Sleep(10 * time.Millisecond) // its trial
				synctest.Wait()
				if attempts != before+1 || w.serving() != 1 {
					t.Errorf("%d attempts, of %v", attempts-before, states(w.Snapshot()))
				}
			})
		})
	}
}
