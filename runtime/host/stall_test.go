package host_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
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

// TestSlowRunsStall: a version of which nothing is answered for a second is stalled, although a run took longer before
// and was answered.
func TestSlowRunsStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.add("m", 1, perRow(1, func(row []float32) error {
			took := time.Millisecond
			if row[0] >= 1000 { // which no example is
				took *= time.Duration(row[0])
			}
			time.Sleep(took)
			return double(row)
		}), func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOff })
		v := w.load("m")
		slow := func(seconds float32) (wait func() []error) {
			call := ask(v, 1, 1000*seconds)
			call.Limit = time.Now().Add(time.Hour)
			return asked(t, w, []*catalog.Call{call})
		}
		for range 2 {
			answered(t, w, v, 1)
			wait := slow(4)
			time.Sleep(time.Second - 1)
			w.stalls("m", "")
			time.Sleep(time.Nanosecond)
			w.stalls("m", "a run on dev hangs")
			if err := wait()[0]; err != nil {
				t.Error(err)
			}
			w.stalls("m", "")
		}
		answered(t, w, v, 1)
		wait := slow(60)
		for range 20 {
			time.Sleep(900 * time.Millisecond)
			answered(t, w, v, 1) // in the other lane
			w.stalls("m", "")
		}
		time.Sleep(time.Second - 1)
		w.stalls("m", "")
		time.Sleep(time.Nanosecond)
		w.stalls("m", "a run on dev hangs")
		if err := wait()[0]; err != nil {
			t.Error(err)
		}
	})
}

// restarting is a session whose process may be down.
type restarting struct {
	engine.Session
	state atomic.Pointer[engine.Process]
}

func (r *restarting) Stats() engine.Stats {
	return engine.Stats{Process: *r.state.Load()}
}

// TestRestartsStall: a version whose process is started again is stalled once that has taken a second, until the next
// process is there; a restart that is quicker is seen in its counters only.
func TestRestartsStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newFleet(t, time.Millisecond, "a", "b")
		m.engine(double)
		var r *restarting
		w.add("m", 1, func(device string) (engine.Opened, error) {
			o, err := m.open(device)
			r = &restarting{Session: o.Session}
			r.state.Store(&engine.Process{})
			o.Session = r
			return o, err
		}, nil)
		w.load("m")
		process := func(p engine.Process) {
			r.state.Store(&p)
			w.Review()
		}
		dead := func(n uint64) engine.Process {
			return engine.Process{Deaths: n, Last: time.Now(), Cause: "SIGFPE", Down: time.Now()}
		}
		again := func(p engine.Process) engine.Process {
			p.Down = time.Time{}
			return p
		}
		first := dead(1)
		process(first)
		time.Sleep(900 * time.Millisecond)
		w.stalls("m", "")
		live := w.version("m", 1).Live()
		if c := live.Crashes; !live.Restarting[0] || c.Deaths != 1 || c.Death != "SIGFPE" || !c.DeathAt.Equal(first.Last) {
			t.Errorf("a process that is started again: %+v", live)
		}
		process(again(first))
		time.Sleep(time.Minute)
		w.stalls("m", "")
		if live := w.version("m", 1).Live(); live.Restarting[0] || live.Crashes.Deaths != 1 {
			t.Errorf("a process that was started again: %+v", live)
		}

		second := dead(2)
		process(second)
		time.Sleep(time.Second - 1)
		w.stalls("m", "")
		time.Sleep(time.Nanosecond)
		w.stalls("m", "its process on a died and is being started again")
		time.Sleep(time.Minute)
		process(again(second))
		w.stalls("m", "")

		// A process that is ended because a run in it hangs: nothing can begin in between.
		f := w.fates()
		f.hang(m, w.version("m", 1))
		time.Sleep(time.Second)
		w.stalls("m", "a run on a hangs")
		time.Sleep(3*time.Hour - time.Second - 1)
		third := dead(3)
		process(third)
		time.Sleep(time.Nanosecond)
		w.stalls("m", "its process on a died and is being started again")
		process(again(third))
		w.stalls("m", "")
		if stalled, resumed := w.logs.Event("version_stalled"), w.logs.Event("version_resumed"); len(stalled) != 3 ||
			len(resumed) != 2 { // the second time for two reasons
			t.Errorf("logged %d times that it is stalled, %d times that it answers again", len(stalled), len(resumed))
		}
		f.callers.Wait()
	})
}
