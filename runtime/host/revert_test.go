package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// TestLostAndBackInATrial: a device is lost and back while a trial on it ends well.
func TestLostAndBackInATrial(t *testing.T) {
	for d := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Second, "a")
			w.add("m", 1, m.open, tiny)
			w.Follow(w.listing)
			time.Sleep(time.Duration(d)*100*time.Millisecond + 50*time.Millisecond)
			w.LoseDevice("a", errors.New("the driver says so"))
			synctest.Wait()
			w.RestoreDevice("a")
			time.Sleep(time.Hour)
			v := w.version("m", 1)
			if v.State != catalog.Ready {
				t.Errorf("lost after %d: %v %s", d, v.State, v.Cause)
				return
			}
			call := ask(v, 1, 21)
			call.Limit = time.Now().Add(time.Minute)
			if err := w.Predict(t.Context(), call); err != nil {
				t.Errorf("lost after %d: %v", d, err)
			}
		})
	}
}
