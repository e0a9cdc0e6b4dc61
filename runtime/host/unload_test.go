package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
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

// TestUnloadingInterruptsTheLoad: a version that is being opened for ever is gone at once when somebody unloads it, and
// one that is loaded again meanwhile is opened again.
func TestUnloadingInterruptsTheLoad(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			ended := make(chan struct{})
			w.add("m", 1, func(ctx context.Context) (engine.Opened, error) {
				<-ctx.Done()
				<-ended
				return engine.Opened{}, context.Cause(ctx)
			}, nil)
			go func() { _ = w.Reconcile(t.Context(), w.listing) }()
			synctest.Wait()
			w.states("m/1 loading")
			unloaded, loaded := make(chan error, 1), make(chan error, 1)
			go func() { unloaded <- w.UnloadVersion(t.Context(), "m", 1) }()
			synctest.Wait()
			w.engine("/models/m/1/model.onnx", times(2))
			if again {
				go func() { loaded <- w.LoadVersion(t.Context(), "m", 1) }()
				synctest.Wait()
			}
			close(ended)
			err := <-unloaded
			if !again {
				if w.states("m "); err != nil {
					t.Errorf("unloaded: %v", err)
				}
				return
			}
			if !errors.Is(err, catalog.ErrBusy) {
				t.Errorf("unloaded while it is loaded again: %v", err)
			}
			if err := <-loaded; err != nil {
				t.Errorf("loaded: %v", err)
			}
			w.answers(w.version("m", 1), 6)
		})
	}
}
