package host_test

import (
	"errors"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Rows of a poison and more crash a model of crashing always, those of a suspect only outside of the quarantine.
const (
	suspect = 100
	poison  = 200
)

// killed says that a process died of SIGFPE.
type killed struct{ error }

func (killed) EndedBy() string { return "SIGFPE" }

// crashing doubles rows, as perRow does, in an engine with a quarantine.
func crashing() (f, quarantine *fake) {
	crash := func(least float32) func(row []float32) error {
		return func(row []float32) error {
			if row[0] >= least {
				return &engine.Error{Kind: engine.Crashed, Err: killed{errors.New("SIGFPE")}}
			}
			return doubleUnlessNaN(row)
		}
	}
	f, quarantine = perRow(1, crash(suspect)), perRow(1, crash(poison))
	f.Opened.Quarantine = quarantine
	return f, quarantine
}

// trusted joins rows without a proof, whose made-up rows would crash.
func trusted(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }

// TestACrashIsProven: requests whose batch ended the engine's process run again, each by itself in quarantine: the
// innocent are answered, the one that ends that process, too, gets the error, and is not run a third time.
func TestACrashIsProven(t *testing.T) {
	f, quarantine := crashing()
	b := newBench(t, f, trusted)
	calls := oneRowCalls(4)
	calls[2] = ask(nil, 1, poison)
	errs, _ := b.together(0, calls)
	for i, err := range errs {
		e, is := errors.AsType[*catalog.ModelError](err)
		if i == 2 && (!is || !e.Crashed || e.Signal != "SIGFPE") ||
			i != 2 && (err != nil || values(calls[i].Results[0])[0] != 2*float32(i+1)) {
			t.Errorf("request %d of 4: %v (%+v)", i, err, e)
		}
	}
	if runs := quarantine.Forget(); len(runs) != 4 {
		t.Errorf("runs in quarantine: %v, want each request once", runs)
	}
	f.Forget()
	err := b.Predict(t.Context(), ask(b.v, 1, poison))
	if e, is := errors.AsType[*catalog.ModelError](err); !is || !e.Crashed || e.Signal != "SIGFPE" ||
		len(f.Forget()) > 0 || len(quarantine.Forget()) > 0 {
		t.Errorf("the poison once more: %v, want it not to be run", err)
	}
	if c := b.version("m", 1).Live().Crashes; c.Proven != 1 || c.Remembered != 1 || c.ProvenAt.IsZero() ||
		c.Proof != "SIGFPE" {
		t.Errorf("after a proven crash: %+v", c)
	}
	if errs, _ = b.together(0, []*catalog.Call{ask(nil, 1, suspect)}); errs[0] != nil {
		t.Errorf("a request that crashed by chance: %v", errs[0])
	}
}

// TestACrashingVersionIsTakenOut once three different requests have ended the engine's process.
func TestACrashingVersionIsTakenOut(t *testing.T) {
	f, _ := crashing()
	b := newBench(t, f, trusted)
	for i := range 3 {
		if b.version("m", 1).State != catalog.Ready {
			t.Fatalf("it is out after %d", i)
		}
		if errs, _ := b.together(0, []*catalog.Call{ask(nil, 1, poison+float32(i))}); errs[0] == nil {
			t.Fatal("a poisoned request was answered")
		}
	}
	weftest.Until(t, "a failed version", func() bool { return b.version("m", 1).State == catalog.Failed })
}

// TestMadeUpRowsCrashOnce: a model that crashes on made-up rows ends the engine's process once while it is loaded.
func TestMadeUpRowsCrashOnce(t *testing.T) {
	f := perRow(1, func([]float32) error {
		return &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")}
	})
	f.Opened.Quarantine = perRow(1, doubleUnlessNaN)
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); v.State != catalog.Ready || v.Batching.Batched {
		t.Errorf("state %v, batched %v: %s", v.State, v.Batching.Batched, v.Batching.Reason)
	}
	if runs := f.Forget(); len(runs) != 1 {
		t.Errorf("runs %v while it was loaded, want one", runs)
	}
}
