package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
)

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
