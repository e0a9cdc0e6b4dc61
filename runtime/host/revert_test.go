package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestARevertedManifest: a manifest that asked for other rows, could not be followed, and is as it was again.
func TestARevertedManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := crowding()
		f.Declared.Inputs = append(f.Declared.Inputs, spec("z", tensor.Float32, tensor.Unknown))
		w := newWorld(t, 1)
		w.add("m", 1, f, fourRows)
		w.reconcile()
		before := w.listing
		w.put("m", 1, errors.New("no memory"), "first")
		w.edit("m", func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff })
		_ = w.Reconcile(t.Context(), w.listing)
		if v := w.version("m", 1); v.State != catalog.Ready || v.Cause == "" {
			t.Fatalf("%v %q", v.State, v.Cause)
		}
		w.listing = before
		_ = w.Reconcile(t.Context(), w.listing)
		if v := w.version("m", 1); v.Cause != "" {
			t.Errorf("it goes on as it was loaded, and says %q", v.Cause)
		}
	})
}

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
