package host_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
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

// TestARequestThatIsSplitAndCrashes when its parts run once more is tried in quarantine, too.
func TestARequestThatIsSplitAndCrashes(t *testing.T) {
	f, quarantine := crashing()
	b := newBench(t, f, func(m *modelrepo.Manifest) {
		trusted(m)
		m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 2, 4
	})
	b.sched.arrived = make(chan struct{}, 4) // each comes twice
	run, runs := f.Answer, 0
	f.Answer = func(b *tensor.Batch) error {
		if runs++; runs == 1 {
			return errTerminated
		}
		return run(b)
	}
	calls := []*catalog.Call{ask(nil, 3, 1, 2, suspect), ask(nil, 3, 4, 5, poison)}
	errs, _ := b.together(0, calls)
	if errs[0] != nil || values(calls[0].Results[0])[2] != 2*suspect {
		t.Errorf("an innocent request: %v, %v", errs[0], calls[0].Results)
	}
	if e, is := errors.AsType[*catalog.ModelError](errs[1]); !is || !e.Crashed {
		t.Errorf("a poison: %v", errs[1])
	}
	if runs := slices.Sorted(slices.Values(quarantine.Forget())); !slices.Equal(runs, []int{1, 1, 2, 2}) {
		t.Errorf("runs in quarantine: %v, want two of each", runs)
	}
}

// TestErrorsOfOneBatch belong to one request each, also where each failed in one batch with others twice.
func TestErrorsOfOneBatch(t *testing.T) {
	b := newBench(t, perRow(1, double), func(m *modelrepo.Manifest) {
		trusted(m)
		m.Batching.MaxBatchSize, m.Batching.MaxRequestRows = 2, 4
	})
	b.sched.arrived = make(chan struct{}, 4)
	b.f.Answer = func(*tensor.Batch) error { return errTerminated }
	errs, _ := b.together(0, []*catalog.Call{ask(nil, 3, 1, 2, 3), ask(nil, 3, 4, 5, 6)})
	first, _ := errors.AsType[*catalog.ModelError](errs[0])
	if second, _ := errors.AsType[*catalog.ModelError](errs[1]); first == nil || second == nil || first == second {
		t.Errorf("%v (%p) and %v (%p)", errs[0], first, errs[1], second)
	}
}

// late is a session whose runs do not begin before their context ends.
type late struct{ engine.Session }

func (late) Run(ctx context.Context, _ *tensor.Batch) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestALimitInQuarantine: a call that is still to be run there at its end gets the error of that.
func TestALimitInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, quarantine := crashing()
		f.Opened.Quarantine = late{quarantine}
		w := newWorld(t, 1)
		w.add("m", 1, f, trusted)
		call := ask(w.load("m"), 1, suspect)
		call.Limit = time.Now().Add(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, want := range []error{sharedsched.ErrExpired, context.DeadlineExceeded} {
			err := w.Predict(ctx, call)
			if _, failed := errors.AsType[*catalog.ModelError](err); failed || !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			call.Limit = time.Time{}
		}
	})
}

// TestARequestThatCannotBeTried in quarantine may be the cause of the crash, and is not run once more outside of it.
// The caller gets the cause.
func TestARequestThatCannotBeTried(t *testing.T) {
	f, quarantine := crashing()
	quarantine.Answer = func(*tensor.Batch) error {
		return &engine.Error{Kind: engine.Terminated, Err: errors.New("fork: cannot allocate memory")}
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, trusted)
	v := w.load("m")
	f.Forget()
	err := w.Predict(t.Context(), ask(v, 1, suspect))
	if !errors.Is(err, catalog.ErrUntried) || errors.Is(err, catalog.ErrNotReady) ||
		errors.Is(err, sharedsched.ErrRemoved) || !strings.HasSuffix(err.Error(), ": cannot allocate memory; try again") {
		t.Errorf("got %v", err)
	}
	if runs, tries := f.Forget(), quarantine.Forget(); len(runs) != 1 || len(tries) != 1 {
		t.Errorf("it was run %d times, and %d times in quarantine", len(runs), len(tries))
	}
	if n := len(w.logs.Event("request_untried")); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestARequestThatWasNotTried is not run again where others are, before a trial of it has shown something.
func TestARequestThatWasNotTried(t *testing.T) {
	f, quarantine := crashing()
	run := quarantine.Answer
	outside := func(*tensor.Batch) error {
		return &engine.Error{Kind: engine.Terminated, Err: errors.New("SIGKILL")}
	}
	ends := map[string]int{}
	w := newWorldOf(t, 1, func(c *host.Config) {
		c.Tried = func(_ string, _ int64, end string) { ends[end]++ }
	})
	w.add("m", 1, f, trusted)
	v := w.load("m")
	for i, c := range []struct {
		tries     func(*tensor.Batch) error
		value     float32
		want      string
		runs, ran int // where others are, and in quarantine
	}{
		{outside, suspect, "SIGKILL", 1, 1},
		{outside, suspect, "SIGKILL", 0, 1},
		{run, 1, "", 1, 0}, // another one
		{run, suspect, "", 0, 1},
		{run, suspect, "", 1, 1}, // that was forgotten
		{outside, poison, "SIGKILL", 1, 1},
		{run, poison, "SIGFPE", 0, 1},
		{outside, poison, "SIGFPE", 0, 0},
	} {
		f.Forget()
		quarantine.Answer = c.tries
		err := w.Predict(t.Context(), ask(v, 1, c.value))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("request %d: %v", i, err)
		}
		if runs, ran := len(f.Forget()), len(quarantine.Forget()); runs != c.runs || ran != c.ran {
			t.Errorf("request %d was run %d times, and %d times in quarantine; want %d, %d", i, runs, ran, c.runs, c.ran)
		}
	}
	if want := map[string]int{"undecided": 3, "answered": 2, "crashed": 1}; !maps.Equal(ends, want) {
		t.Errorf("runs in quarantine ended %v, want %v", ends, want)
	}
}

// TestASlowRequestStopsOneRun: one that takes longer than its patience in the worker is not taken for one that hangs.
// In quarantine it has as long as any run, and gives way to others; later ones of its kind have as long in the worker.
func TestASlowRequestStopsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 5 * time.Minute
		f, quarantine := crashing()
		var patience []time.Duration
		run, runQuarantined := f.Answer, quarantine.Answer
		f.Answer = func(b *tensor.Batch) error {
			time.Sleep(time.Millisecond)
			patience = append(patience, b.Patience)
			return run(b)
		}
		quarantine.Answer = func(b *tensor.Batch) error {
			if b.Patience != time.Hour || b.Turn != 2*time.Second {
				t.Errorf("in quarantine a run has a turn of %v and may take %v", b.Turn, b.Patience)
			}
			time.Sleep(time.Minute + takes)
			b.Waited, b.DeviceTime = time.Minute, takes/10 // for its turn, and of a processor
			return runQuarantined(b)
		}
		w := newWorldOf(t, 1, func(c *host.Config) { c.RunTimeout = time.Hour })
		w.add("m", 1, f, trusted)
		v := w.load("m")
		answered(t, w, v, 1)
		patience = nil
		for _, value := range []float32{1, suspect, 1} {
			call := ask(v, 1, value)
			begin := time.Now()
			call.Limit = begin.Add(time.Hour)
			if err := w.Predict(t.Context(), call); err != nil {
				t.Error(err)
			}
			if o := call.Outcome; o.Queue+o.Compute != time.Since(begin) || (o.Batch == 0) != (value == suspect) ||
				(o.Ended == 0) != (value == suspect) || value == suspect && o.Compute != time.Minute+takes {
				t.Errorf("after %v: %+v", time.Since(begin), o)
			}
		}
		if want := []time.Duration{2 * time.Second, 2 * time.Second, 2 * takes}; !slices.Equal(patience, want) {
			t.Errorf("runs in the worker had %v, want %v", patience, want)
		}
	})
}

// TestPatienceInQuarantine: a run there may take any time without a run timeout, and gives way to others. It may take
// as long while the host hurries, since its early end would prove nothing.
func TestPatienceInQuarantine(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		for _, hurries := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f, quarantine := crashing()
				run, runQuarantined, tries := f.Answer, quarantine.Answer, 0
				f.Answer = func(b *tensor.Batch) error {
					time.Sleep(time.Millisecond)
					return run(b)
				}
				quarantine.Answer = func(b *tensor.Batch) error {
					tries++
					if b.Patience != timeout || b.Turn != 2*time.Second {
						t.Errorf("in quarantine a run has a turn of %v and may take %v", b.Turn, b.Patience)
					}
					return runQuarantined(b)
				}
				w := newWorldOf(t, 1, func(c *host.Config) { c.RunTimeout = timeout })
				w.add("m", 1, f, trusted)
				v := w.load("m")
				answered(t, w, v, 1)
				if hurries {
					w.Hurry()
				}
				if err := w.Predict(t.Context(), ask(v, 1, suspect)); err != nil || tries != 1 {
					t.Errorf("%v after %d runs in quarantine", err, tries)
				}
			})
		}
	}
}

// TestACrashingVersionIsTakenOut once three different requests have ended the engine's process.
func TestACrashingVersionIsTakenOut(t *testing.T) {
	f, _ := crashing()
	b := newBench(t, f, trusted)
	before := time.Now()
	for i := range 3 {
		if b.version("m", 1).State != catalog.Ready {
			t.Fatalf("it is out after %d", i)
		}
		if errs, _ := b.together(0, []*catalog.Call{ask(nil, 1, poison+float32(i))}); errs[0] == nil {
			t.Fatal("a poisoned request was answered")
		}
	}
	weftest.Until(t, "a failed version", func() bool { return b.version("m", 1).State == catalog.Failed })
	v := b.version("m", 1)
	const said = "it was taken out: requests ended the engine's process 3 times within 1m0s, each by itself; the latest: "
	if !v.TakenOut || !v.Again.After(before) || !strings.HasPrefix(v.Cause, said) || v.Live == nil ||
		v.Live().Crashes.Proven != 3 {
		t.Errorf("it is shown as %+v", v)
	}
	if n := b.Counts().TakenOut; n != 1 {
		t.Errorf("counted %d times", n)
	}
	weftest.Until(t, "a record of that", func() bool { return len(b.logs.Event("version_taken_out")) == 1 })
}

// TestAKillerIsRememberedAcrossLoads of the same files, whether the version was taken out in between or another one
// took its place; and not once the files are others.
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
		for i := range 3 {
			if n := runs(poison + float32(i)); n != 2 {
				t.Errorf("a new poison made %d runs", n)
			}
		}
		synctest.Wait()
		w.states("m/1 failed")
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

// TestMadeUpRowsCrashOnce: a model that crashes on made-up rows ends the engine's process once while it is loaded.
func TestMadeUpRowsCrashOnce(t *testing.T) {
	crash := func([]float32) error { return &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")} }
	f, quarantine := perRow(1, crash), perRow(1, crash)
	f.Opened.Quarantine = quarantine
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); v.State != catalog.Ready || v.Batching.Batched {
		t.Errorf("state %v, batched %v: %s", v.State, v.Batching.Batched, v.Batching.Reason)
	}
	if runs, proofs := f.Forget(), quarantine.Forget(); len(runs) != 1 || len(proofs) != 1 {
		t.Errorf("runs %v while it was loaded, and %v in quarantine; want one each", runs, proofs)
	}
}

// TestAMadeUpRowIsTriedByItself if something ends the engine's process while the row is there: the proof goes on.
func TestAMadeUpRowIsTriedByItself(t *testing.T) {
	f, quarantine := perRow(1, double), perRow(1, double)
	f.Opened.Quarantine = quarantine
	run, runs := f.Answer, 0
	f.Answer = func(b *tensor.Batch) error {
		if runs++; runs == 2 {
			return &engine.Error{Kind: engine.Crashed, Err: errors.New("another model's SIGFPE")}
		}
		return run(b)
	}
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	if v := w.load("m"); v.State != catalog.Ready || !v.Batching.Batched {
		t.Errorf("state %v, batched %v: %s", v.State, v.Batching.Batched, v.Batching.Reason)
	}
	if proofs := quarantine.Forget(); len(proofs) != 1 {
		t.Errorf("runs in quarantine: %v, want one", proofs)
	}
}
