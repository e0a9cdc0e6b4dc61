package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLostInATrialThatEndsWell: a replica whose device was lost in its trial, which ended well.
func TestLostInATrialThatEndsWell(t *testing.T) {
	for d := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w, m := newFleet(t, time.Second, "a", "b")
			w.add("m", 1, m.open, tiny)
			w.Follow(w.listing)
			time.Sleep(time.Duration(d) * 100 * time.Millisecond)
			w.LoseDevice("a", errors.New("the driver says so"))
			time.Sleep(time.Minute)
			w.on("m", 1, "b")
			if versions, replicas := w.Known(); versions+replicas > 0 {
				t.Errorf("lost after %d00 ms: %d versions and %d replicas are remembered", d, versions, replicas)
			}
		})
	}
}

// TestALossWhileClosingIsSaidOnce: the error of Close says it once.
func TestALossWhileClosingIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		w.add("m", 1, m.open, tiny)
		v := w.load("m")
		f := w.fates()
		f.hang(m, v)
		closed := make(chan error)
		go func() { closed <- w.Close(context.Background()) }()
		time.Sleep(time.Minute)
		w.LoseDevice("gpu", errors.New("the driver says so"))
		err := <-closed
		if n := strings.Count(err.Error(), "does not end"); n != 1 {
			t.Errorf("said %d times: %v", n, err)
		}
		f.callers.Wait()
	})
}

// TestALossWhileClosingIsLogged: a device that fails after Close began is logged.
func TestALossWhileClosingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "gpu", "cpu")
		w.add("m", 1, m.open, tiny)
		w.load("m")
		block := make(chan struct{})
		w.add("slow", 1, opening(times(1), func() { <-block }), nil)
		w.Follow(w.listing)
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- w.Close(context.Background()) }()
		synctest.Wait()
		w.LoseDevice("gpu", errors.New("the driver says so"))
		synctest.Wait()
		if n := len(w.logs.Event(lostEvent)); n != 1 {
			t.Errorf("logged %d times", n)
		}
		close(block)
		<-closed
	})
}
