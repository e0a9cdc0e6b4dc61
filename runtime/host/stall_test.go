package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// stalls checks why a version is published as stalled, and whether its model responds.
func (w *world) stalls(name, want string) {
	w.t.Helper()
	synctest.Wait()
	v := w.version(name, 1)
	if v.State != catalog.Ready || v.Stalled != want || w.Snapshot().Model(name).Responds() != (want == "") {
		w.t.Errorf("%s is %v, stalled %q, responds %t; want it ready, stalled %q", name, v.State, v.Stalled,
			w.Snapshot().Model(name).Responds(), want)
	}
}

// TestHangsStall: a version is stalled while a run hangs on each of its devices, and so is another one whose only
// device that run holds. Requests go to a replica that is not.
func TestHangsStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		w.add("m", 1, m.open, replicated(2))
		w.load("m")
		w.on("m", 1, "a", "b")
		w.add("n", 1, m.open, nil)
		w.load("n")
		w.on("n", 1, "a")
		f := w.fates()
		f.hang(m, w.version("m", 1))
		time.Sleep(time.Second - 1)
		w.stalls("n", "")
		time.Sleep(time.Nanosecond)
		w.stalls("n", "runs of other models hang on a")
		w.stalls("m", "")
		m.runs()
		answered(t, w, w.version("m", 1), 3)
		if ran := m.runs(); ran["b"] != 3 || ran["a"] != 0 {
			t.Errorf("requests ran on %v, want all on b", ran)
		}
		f.hang(m, w.version("m", 1))
		time.Sleep(2 * time.Second)
		w.stalls("m", "a run on a hangs; a run on b hangs")
		time.Sleep(4 * time.Hour)
		w.stalls("m", "")
		w.stalls("n", "")
		f.callers.Wait()
	})
}
