package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

func TestByHand(t *testing.T) {
	w := newWorld(t, 1)
	first := times(1)
	w.add("m", 1, first, nil)
	w.add("m", 2, times(2), nil)
	w.choose("m", 2)
	w.reconcile()
	w.states("m/2 ready")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(w.LoadVersion(t.Context(), "m", 1))
	ok(w.LoadVersion(t.Context(), "m", 1))
	w.answers(w.version("m", 1), 3)
	w.reconcile()
	w.states("m/1 ready", "m/2 ready")

	// Neither does the policy bring back what was unloaded by hand, until it changes.
	ok(w.UnloadVersion(t.Context(), "m", 2))
	ok(w.UnloadVersion(t.Context(), "m", 1))
	w.reconcile()
	w.states()
	if first.closed != 1 {
		t.Errorf("closed %d times", first.closed)
	}
	w.put("m", 2, times(2), "second")
	ok(w.LoadVersion(t.Context(), "m", 2))
	w.states("m/2 ready")
	ok(w.UnloadVersion(t.Context(), "m", 2))
	w.put("m", 2, times(2), "third")
	w.edit("m", func(m *modelrepo.Manifest) { m.Versions.Policy.Latest++ })
	w.reconcile()
	w.states("m/2 ready")

	for name, err := range map[string]error{
		"loading an unknown version":   w.LoadVersion(t.Context(), "m", 9),
		"loading an unknown model":     w.LoadVersion(t.Context(), "n", 1),
		"unloading an unknown version": w.UnloadVersion(t.Context(), "m", 9),
		"unloading an unknown model":   w.UnloadVersion(t.Context(), "n", 1),
	} {
		if !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnloadOfWhatIsNamed is refused, and says by whom.
func TestUnloadOfWhatIsNamed(t *testing.T) {
	w := newWorld(t, 1)
	w.add("m", 1, times(1), func(m *modelrepo.Manifest) { m.Versions.Labels = map[string]int64{"stable": 1} })
	w.reconcile()
	if _, err := w.SetTraffic("m", split(1), 0); err != nil {
		t.Fatal(err)
	}
	err := w.UnloadVersion(t.Context(), "m", 1)
	e, is := errors.AsType[*catalog.InUseError](err)
	if !is {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`label "stable"`, `slot "a" of the traffic`}, e.By); diff != "" {
		t.Errorf("named by (-want +got):\n%s", diff)
	}
	w.answers(w.version("m", 1), 3)
}

// TestLoadVersionThatFails: whoever asked is told; a version that only they wanted is not tried again.
func TestLoadVersionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		attempts := 0
		w.add("m", 1, opening(nil, func() { attempts++; panic("cut short") }), nil)
		w.add("m", 2, times(2), nil)
		w.choose("m", 2)
		w.reconcile()
		if err := w.LoadVersion(t.Context(), "m", 1); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if attempts != 1 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// TestUnloadVersionThatNobodyWaitsFor: the version is drained and closed all the same.
func TestUnloadVersionThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		f := times(2)
		v := withValve(f)
		w.add("m", 1, f, nil)
		w.reconcile()
		v.closed = true
		call := ask(w.version("m", 1), 1, 3)
		answered := make(chan error, 1)
		go func() { answered <- w.Predict(t.Context(), call) }()
		<-v.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.UnloadVersion(ctx, "m", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		w.states("m/1 unloading")
		v.open <- struct{}{}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.states()
		if f.closed != 1 {
			t.Errorf("closed %d times", f.closed)
		}
	})
}

// TestAReplacedVersionThatNobodyWaitsFor: the same for one whose place another has taken.
func TestAReplacedVersionThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		f := times(2)
		v := withValve(f)
		w.add("m", 1, f, nil)
		w.reconcile()
		v.closed = true
		call := ask(w.version("m", 1), 1, 3)
		answered := make(chan error, 1)
		go func() { answered <- w.Predict(t.Context(), call) }()
		<-v.entered
		w.put("m", 1, times(5), "second")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Reconcile(ctx, w.listing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		w.answers(w.version("m", 1), 15)
		v.open <- struct{}{}
		if err := <-answered; err != nil || values(call.Results[0])[0] != 6 {
			t.Errorf("the request in flight: %v, %v", call.Results, err)
		}
		synctest.Wait()
		if f.closed != 1 {
			t.Errorf("closed %d times", f.closed)
		}
	})
}

// TestAnInterruptedUnloadIsFinished by the next Reconcile, which loads the version again if it is wanted.
func TestAnInterruptedUnloadIsFinished(t *testing.T) {
	w := newWorld(t, 1)
	f := times(2)
	v := withValve(f)
	w.add("m", 1, f, nil)
	w.reconcile()
	v.closed = true
	call := ask(w.version("m", 1), 1, 3)
	answered := make(chan error, 1)
	go func() { answered <- w.Predict(t.Context(), call) }()
	<-v.entered
	if err := w.Unload(expired(t), "m", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	v.open <- struct{}{}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	w.put("m", 1, times(5), "first")
	w.reconcile()
	w.answers(w.version("m", 1), 15)
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}
