package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// TestAnUnloadThatIsFollowedByALoad: the unload succeeded, whatever somebody wants by then.
func TestAnUnloadThatIsFollowedByALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := times(2)
		v := withValve(f)
		w.add("m", 1, func(d string) (engine.Opened, error) {
			return engine.Opened{Session: f, Device: "dev", Provider: "fake"}, nil
		}, nil)
		w.reconcile()
		v.closed = true
		call := ask(w.version("m", 1), 1, 3)
		answered := make(chan error, 1)
		go func() { answered <- w.Predict(t.Context(), call) }()
		<-v.entered
		unloaded, loaded := make(chan error, 1), make(chan error, 1)
		go func() { unloaded <- w.UnloadVersion(t.Context(), "m", 1) }()
		synctest.Wait()
		w.states("m/1 unloading")
		go func() { loaded <- w.LoadVersion(t.Context(), "m", 1) }()
		synctest.Wait()
		w.engine("/models/m/1/model.onnx", times(3))
		v.closed = false
		v.open <- struct{}{}
		<-answered
		select {
		case err := <-unloaded:
			if err != nil {
				t.Errorf("unloaded: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error(errors.New("it hangs"))
		}
		t.Log(<-loaded)
	})
}
