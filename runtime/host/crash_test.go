package host_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestAKillerIsRememberedAcrossLoads of the same files, whether the version was taken out in between, as it is once
// three requests have ended the engine's process, or another one took its place; and not once the files are others.
func TestAKillerIsRememberedAcrossLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, quarantine := crashing()
		open := func(context.Context) (engine.Opened, error) {
			o := f.Open()
			o.Device = "dev"
			return o, nil
		}
		w := newWorld(t, 1)
		w.addFile("m", doubling(), open, trusted)
		v := w.load("m")
		runs := func(value float32) int {
			t.Helper()
			f.Forget()
			err := w.Predict(t.Context(), ask(v, 1, value))
			if e, is := errors.AsType[*catalog.ModelError](err); !is || !e.Crashed {
				t.Errorf("a poison: %v", err)
			}
			return len(f.Forget()) + len(quarantine.Forget())
		}
		before := time.Now()
		for i := range 3 {
			if n := runs(poison + float32(i)); n != 2 {
				t.Errorf("a new poison made %d runs", n)
			}
		}
		synctest.Wait()
		w.states("m/1 failed")
		const said = "it was taken out: requests ended the engine's process 3 times within 1m0s, each by itself; the latest: "
		if out := w.version("m", 1); !out.TakenOut || !out.Again.After(before) || !strings.HasPrefix(out.Cause, said) ||
			out.Live == nil || out.Live().Crashes.Proven != 3 {
			t.Errorf("it is shown as %+v", out)
		}
		if counted, logged := w.Counts().TakenOut, len(w.logs.Event("version_taken_out")); counted != 1 || logged != 1 {
			t.Errorf("counted %d times, logged %d times", counted, logged)
		}
		time.Sleep(time.Minute) // it is tried again
		for _, c := range []struct {
			fingerprint      string
			remembered, runs int
		}{{"first", 3, 0}, {"touched", 3, 0}, {"changed", 0, 2}} {
			if c.fingerprint == "changed" {
				if err := os.WriteFile(v.Path, mixing(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.put("m", 1, open, c.fingerprint)
			v = w.load("m")
			if now := v.Live().Crashes; now.Proven != 0 || now.Remembered != c.remembered {
				t.Errorf("%s files: %+v, want %d remembered", c.fingerprint, now, c.remembered)
			}
			if n := runs(poison); n != c.runs {
				t.Errorf("%s files: the first poison made %d runs, want %d", c.fingerprint, n, c.runs)
			}
		}
	})
}
