package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// TestRequestsOutsideOfTheSchedulerAreAbandoned with those in its queues: their callers get an answer at once.
func TestRequestsOutsideOfTheSchedulerAreAbandoned(t *testing.T) {
	for name, wait := range map[string]func(*testing.T) (w *world, ended <-chan error){
		"the version is loaded elsewhere": func(t *testing.T) (*world, <-chan error) {
			w, m := newFleet(t, time.Second, "a", "b")
			w.add("m", 1, m.open, tiny)
			v := w.load("m")
			m.opens["b"] = func() error {
				time.Sleep(5 * time.Second)
				return nil
			}
			first := predicts(w, ask(v, 1, 1))
			ended := predicts(w, ask(v, 1, 1))
			m.breaks("a")
			<-first
			return w, ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, ended := wait(t)
				synctest.Wait()
				began := time.Now()
				w.sched.Abandon()
				if err := <-ended; !errors.Is(err, sharedsched.ErrClosed) || time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// predicts makes a call in the background.
func predicts(w *world, c *catalog.Call) (ended <-chan error) {
	end := make(chan error, 1)
	go func() { end <- w.Predict(w.t.Context(), c) }()
	synctest.Wait()
	return end
}
