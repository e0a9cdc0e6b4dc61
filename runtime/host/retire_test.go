package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestCloseSaysWhatDidNotDrain in time.
func TestCloseSaysWhatDidNotDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := times(2)
		v := withValve(f)
		w.add("m", 1, f, nil)
		w.reconcile()
		v.closed = true
		answered := make(chan error, 1)
		go func() { answered <- w.Predict(context.Background(), ask(w.version("m", 1), 1, 3)) }()
		<-v.entered
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), `model "m" version 1`) {
			t.Errorf("Close does not say what did not drain: %v", err)
		}
		v.open <- struct{}{}
		<-answered
	})
}

// TestALostVersionIsShownAsItWas: the published state of a version that is lost and not loaded again.
func TestALostVersionIsShownAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		w.add("m", 1, m.open, func(m *modelrepo.Manifest) {
			tiny(m)
			m.Versions.Labels = map[string]int64{"old": 1}
		})
		w.load("m")
		w.add("m", 2, m.open, nil)
		w.choose("m", 2)
		w.load("m")
		w.LoseDevice("a", errors.New("fell off the bus"))
		synctest.Wait()
		w.load("m")
		w.states("m/1 failed", "m/2 ready")
		if v := w.version("m", 1); v.Signature == nil || v.LoadedAt.IsZero() {
			t.Errorf("signature %v, loaded at %v", v.Signature, v.LoadedAt)
		}
	})
}

// TestAnUnloadThatNobodyWaitsFor: a caller that did not wait for the model's turn did not unload anything.
func TestAnUnloadThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.add("m", 1, times(1), nil)
		w.reconcile()
		block := make(chan struct{})
		w.add("m", 2, opening(times(2), func() { <-block }), nil)
		w.Follow(w.listing)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.UnloadVersion(ctx, "m", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		close(block)
		synctest.Wait()
		w.states("m/1 ready", "m/2 ready")
	})
}
