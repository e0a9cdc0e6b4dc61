package serving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestWhoIsToBlame: requests of a batch that failed, or ended the engine's process, run again by themselves: the
// innocent are answered, and the error of the one that is to blame says how many of its mates were.
func TestWhoIsToBlame(t *testing.T) {
	nan := float32(0)
	nan /= nan
	for name, c := range map[string]struct {
		change   func(*modelrepo.Manifest)
		stopped  bool // the run of both is
		requests [][]float32
		ends     string
		mates    int // of the ones that failed
		tries    []int
	}{
		"one of four crashes":  {trusted, false, [][]float32{{1}, {2}, {poison}, {4}}, "ok ok crashed ok", -1, []int{1, 1, 1, 1}},
		"it crashed by chance": {trusted, false, [][]float32{{suspect}, {2}}, "ok ok", 0, []int{1, 1}},
		"one of five fails":    {trusted, false, [][]float32{{1}, {2}, {nan}, {4}, {5}}, "ok ok alone ok ok", 4, nil},
		"one fails, and time is short": {func(m *modelrepo.Manifest) {
			trusted(m)
			m.Batching.MaxBatchCost = config.Duration(time.Millisecond) // one run of a half
		}, false, [][]float32{{1}, {2}, {nan}, {4}}, "ok ok alone ok", -1, nil},
		"all fail": {trusted, false, [][]float32{{nan}, {nan}}, "alone alone", 0, nil},
		"two that are split, of which one crashes": {
			few(2), true, [][]float32{{1, 2, suspect}, {4, 5, poison}}, "ok crashed", -1, []int{1, 1, 2, 2},
		},
		"equal ones are tried once": {
			trusted, false,
			[][]float32{{poison}, {1}, {poison}, {1}, {poison}},
			"crashed ok crashed ok crashed", -1,
			[]int{1, 1, 1},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, quarantine := crashing()
			answer, runs := e.Answer, 0
			s := serve(t, e, options{change: c.change})
			e.Answer = func(b *tensor.Batch) error {
				x := weftest.Values(b.Inputs[0])
				if len(x) == 2 && x[0] == suspect && c.stopped && runs == 0 {
					runs++
					return errStopped
				}
				if slices.ContainsFunc(x, func(v float32) bool { return v != v }) {
					return errFailed
				}
				return answer(b)
			}
			var calls []*catalog.Call
			for _, rows := range c.requests {
				calls = append(calls, s.ask(rows...))
			}
			errs := s.together(calls...)
			if got := strings.Join(outcomes(calls, errs), " "); got != c.ends {
				t.Errorf("%s: ended as %s, want %s; %v", name, got, c.ends, errs)
			}
			seen := map[*catalog.ModelError]bool{}
			for i, err := range errs {
				if failed, is := errors.AsType[*catalog.ModelError](err); is {
					if seen[failed] || c.mates >= 0 && failed.Mates != c.mates {
						t.Errorf("%s: request %d failed beside %d that were answered, want %d; with an error of its own: %v", name, i,
							failed.Mates, c.mates, !seen[failed])
					}
					seen[failed] = true
				}
			}
			if tries := slices.Sorted(slices.Values(quarantine.Forget())); !slices.Equal(tries, c.tries) {
				t.Errorf("%s: runs in quarantine: %v, want %v", name, tries, c.tries)
			}
		})
	}
}

// TestACrashIsProven: a poison is not run a third time, and three of them have the version taken out.
func TestACrashIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, quarantine := crashing()
		s := serve(t, e, options{change: trusted})
		for n := range 3 {
			if len(s.takenOut()) > 0 {
				t.Errorf("it is taken out after %d", n)
			}
			for again := range 2 {
				c := s.ask(poison + float32(n))
				if got := outcome(c, s.predict(c)); got != "crashed" {
					t.Errorf("ended as %s", got)
				}
				if runs, tries := len(e.Forget()), len(quarantine.Forget()); runs != 1-again || tries != 1-again {
					t.Errorf("poison %d came the %d. time: %d runs, and %d in quarantine", n, again+1, runs, tries)
				}
			}
			if now := s.public().Live().Crashes; now.Proven != uint64(n+1) || now.Remembered != n+1 || now.ProvenAt.IsZero() ||
				now.Proof != "SIGFPE" {
				t.Errorf("after %d: %+v", n+1, now)
			}
		}
		const why = "requests ended the engine's process 3 times within 1m0s, each by itself; the latest: SIGFPE"
		if all := s.takenOut(); len(all) != 1 || all[0].Error() != why || len(s.logs.Event("request_crashed")) != 3 {
			t.Errorf("taken out: %v; log %q", all, s.logs.Lines(""))
		}
		if want := map[string]int{"crashed": 3}; !maps.Equal(s.ends(), want) {
			t.Errorf("tries ended %v", s.ends())
		}
		c := s.ask(1)
		if got := outcome(c, s.predict(c)); got != "ok" {
			t.Errorf("another request: %s", got)
		}
	})
}

// TestARequestThatWasNotTried is not run again where others are, before a trial of it has shown something.
func TestARequestThatWasNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, quarantine := crashing()
		run := quarantine.Answer
		ends := func(k engine.Kind) func(*tensor.Batch) error {
			return func(*tensor.Batch) error { return &engine.Error{Kind: k, Err: errFailed} }
		}
		outside := func(*tensor.Batch) error { return errStopped }
		s := serve(t, e, options{change: trusted})
		for i, c := range []struct {
			tries     func(*tensor.Batch) error
			value     float32
			want      string
			runs, ran int // where others are, and in quarantine
		}{
			{outside, suspect, "SIGKILL", 1, 1},
			{outside, suspect, "SIGKILL", 0, 1},
			{run, 1, "ok", 1, 0}, // another one
			{run, suspect, "ok", 0, 1},
			{run, suspect, "ok", 1, 1}, // that was forgotten
			{outside, poison, "SIGKILL", 1, 1},
			{run, poison, "crashed", 0, 1},
			{outside, poison, "crashed", 0, 0},
			{func(*tensor.Batch) error { return errFailed }, suspect, "alone", 1, 1},
			{ends(engine.NotOpen), suspect, "try again", 1, 1},
			{ends(engine.DeviceLost), suspect, "is not ready", 0, 1},
		} {
			e.Forget()
			quarantine.Forget()
			quarantine.Answer = c.tries
			call := s.ask(c.value)
			err := s.predict(call)
			if got := outcome(call, err); !strings.Contains(got, c.want) ||
				c.want == "SIGKILL" && (!errors.Is(err, catalog.ErrUntried) || !strings.HasSuffix(got, ": SIGKILL; try again")) {
				t.Errorf("request %d: %s", i, got)
			}
			if runs, ran := len(e.Forget()), len(quarantine.Forget()); runs != c.runs || ran != c.ran {
				t.Errorf("request %d was run %d times, and %d times in quarantine; want %d, %d", i, runs, ran, c.runs, c.ran)
			}
		}
		if want := map[string]int{"undecided": 5, "answered": 2, "crashed": 1, "failed": 1}; !maps.Equal(s.ends(), want) {
			t.Errorf("runs in quarantine ended %v, want %v", s.ends(), want)
		}
		if n := len(s.logs.Event("request_untried")); n != 4 {
			t.Errorf("logged %d times", n)
		}
	})
}

// TestPatience: a run has as long as others that went well show; in quarantine it may take any time, or what the run
// timeout says, and gives way to others. So it is while the owner hurries, since its early end would prove nothing.
func TestPatience(t *testing.T) {
	const takes = 5 * time.Minute
	for _, timeout := range []time.Duration{0, time.Hour} {
		for _, hurries := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e, quarantine := crashing()
				var patience []time.Duration
				run, try := e.Answer, quarantine.Answer
				s := serve(t, e, options{change: trusted, timeout: timeout})
				e.Answer = func(b *tensor.Batch) error {
					patience = append(patience, b.Patience)
					return run(b)
				}
				quarantine.Answer = func(b *tensor.Batch) error {
					if b.Patience != timeout || b.Turn != 2*time.Second {
						t.Errorf("in quarantine a run has a turn of %v and may take %v", b.Turn, b.Patience)
					}
					time.Sleep(time.Minute + takes)
					b.Waited, b.DeviceTime = time.Minute, takes/10 // for its turn, and of a processor
					return try(b)
				}
				if hurries {
					s.Hurry()
				}
				for _, value := range []float32{1, suspect, 1} {
					call := s.ask(value)
					began := time.Now()
					call.Limit = began.Add(time.Hour)
					if got := outcome(call, s.predict(call)); got != "ok" {
						t.Error(got)
					}
					o, tried := call.Outcome, value == suspect
					if o.Queue+o.Compute != time.Since(began) || (o.Batch == 0) != tried || (o.Ended == 0) != tried ||
						tried && o.Compute != time.Minute+takes+time.Millisecond {
						t.Errorf("after %v: %+v", time.Since(began), o)
					}
				}
				last := max(2*(takes+time.Millisecond), 2*time.Second)
				if want := []time.Duration{2 * time.Second, 2 * time.Second, last}; !slices.Equal(patience, want) {
					t.Errorf("runs had %v, want %v", patience, want)
				}
			})
		}
	}
}

// hanging is a model with a quarantine: a suspect's run takes two seconds, and is stopped, where others are. In
// quarantine it takes a second, and a poison's ends with its patience or its context.
type hanging struct {
	*weftest.Engine
	quarantine           *weftest.Engine
	killed, tried, tries atomic.Int32 // runs that were stopped; the ones in quarantine, and the ones of these that go on
}

// attempted is the quarantine of a hanging model.
type attempted struct {
	engine.Session
	of *hanging
}

func (q attempted) Run(ctx context.Context, b *tensor.Batch) error {
	q.of.tried.Add(1)
	q.of.tries.Add(1)
	defer q.of.tries.Add(-1)
	time.Sleep(time.Second) // a process is started
	if weftest.Values(b.Inputs[0])[0] < poison {
		return q.Session.Run(ctx, b)
	}
	var over <-chan time.Time
	if b.Patience > 0 {
		over = time.After(b.Patience)
	}
	select {
	case <-ctx.Done():
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	case <-over:
		return engine.Overrun(b.Patience, killed{errors.New("it hangs")})
	}
}

func serveHanging(t *testing.T, timeout time.Duration) (*served, *hanging) {
	t.Helper()
	h := &hanging{quarantine: model(nil)}
	h.Engine = model(func(rows [][]float32) error {
		if rows[0][0] >= suspect {
			h.killed.Add(1)
			time.Sleep(2 * time.Second)
			return engine.Overrun(2*time.Second, errors.New("it hangs"))
		}
		return nil
	})
	h.Opened.Quarantine = attempted{h.quarantine, h}
	s := serve(t, h.Engine, options{timeout: timeout, change: func(m *modelrepo.Manifest) {
		trusted(m)
		m.MaxLatency = modelrepo.Defaults().MaxLatency // ten seconds
	}})
	if c := s.ask(1); outcome(c, s.predict(c)) != "ok" {
		t.Fatal("it answers nothing")
	}
	h.killed.Store(0)
	return s, h
}

// TestAHangIsProven however short its callers' limits are: the request ends the process once, requests that bring the
// same inputs meanwhile wait for the verdict, and then it is not run any more. Three that nobody waits for have the
// version taken out.
func TestAHangIsProven(t *testing.T) {
	for _, limit := range []time.Duration{0, 50 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s, h := serveHanging(t, 30*time.Second)
			for began, proven := time.Now(), false; !proven; {
				call := s.ask(poison)
				if limit > 0 {
					call.Limit = time.Now().Add(limit)
				}
				err := s.predict(call)
				e, is := errors.AsType[*catalog.ModelError](err)
				if proven = is && e.Crashed; !proven && (!errors.Is(err, sharedsched.ErrExpired) || h.tried.Load() == 1 &&
					!strings.Contains(err.Error(), "the request is run by itself") || time.Since(began) > time.Minute) {
					t.Fatalf("limit %v: after %v: %v", limit, time.Since(began), err)
				}
			}
			if now := s.public().Live().Crashes; h.killed.Load() != 1 || h.tried.Load() != 1 || now.Proven != 1 {
				t.Errorf("limit %v: it was stopped %d times, with %d runs in quarantine; %+v", limit, h.killed.Load(),
					h.tried.Load(), now)
			}
			for i := range 2 {
				if err := s.predict(s.ask(poison + 1 + float32(i))); !errors.Is(err, sharedsched.ErrExpired) {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute)
			if all := s.takenOut(); len(all) != 1 {
				t.Errorf("taken out: %v", all)
			}
		})
	}
}

// TestARequestWaitsForAnEqualOne that is tried, and is answered if that was innocent.
func TestARequestWaitsForAnEqualOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := serveHanging(t, 30*time.Second)
		first := s.ask(suspect)
		first.Limit = time.Now().Add(2500 * time.Millisecond)
		if err := s.predict(first); !errors.Is(err, sharedsched.ErrExpired) {
			t.Fatal(err)
		}
		second := s.ask(suspect)
		if got := outcome(second, s.predict(second)); got != "ok" || h.killed.Load() != 2 || h.tried.Load() != 2 {
			t.Errorf("%s; %d runs, and %d in quarantine", got, h.killed.Load(), h.tried.Load())
		}
	})
}

// TestTrialsThatNobodyWaitsFor: so many go on, and end with their replica; without a run timeout none does, since
// nothing else would end it.
func TestTrialsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := serveHanging(t, time.Hour)
		left, leave := context.WithCancel(t.Context())
		const maxUnwaited = 64 // of package quarantine
		errs := make(chan error, maxUnwaited+1)
		for i := range cap(errs) {
			call := s.ask(poison + float32(i))
			call.Limit = time.Now().Add(time.Hour)
			go func() {
				errs <- s.answer(left, call)
			}()
		}
		time.Sleep(10 * time.Minute)
		if n := h.tries.Load(); n != maxUnwaited+1 {
			t.Fatalf("%d are tried", n)
		}
		leave()
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := h.tries.Load(); n != maxUnwaited {
			t.Errorf("%d go on, want %d", n, maxUnwaited)
		}
		again := s.begin(s.ask(poison)) // which waits for one of them, or is the next
		s.v.Replicas()[0].Finish(t.Context())
		<-again
		synctest.Wait()
		if n := h.tries.Load(); n != 0 {
			t.Errorf("without the replica %d go on", n)
		}
		s.v.Change(nil)
	})
	synctest.Test(t, func(t *testing.T) {
		s, h := serveHanging(t, 0)
		if err := s.predict(s.ask(poison)); !errors.Is(err, sharedsched.ErrExpired) {
			t.Error(err)
		}
		synctest.Wait()
		if tried, tries := h.tried.Load(), h.tries.Load(); tried != 1 || tries != 0 {
			t.Errorf("it was tried %d times, and %d go on", tried, tries)
		}
	})
}

// TestLimitsOfTrials: a call that is tried ends with its limit, its context, and when the scheduler abandons its own.
func TestLimitsOfTrials(t *testing.T) {
	for name, want := range map[string]error{
		"limit": sharedsched.ErrExpired, "context": context.DeadlineExceeded, "abandoned": sharedsched.ErrClosed,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := serveHanging(t, time.Hour)
			call, began := s.ask(poison), time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			switch name {
			case "limit":
				call.Limit = began.Add(5 * time.Second)
			case "context":
				ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
			default:
				time.AfterFunc(5*time.Second, s.sched.Abandon)
			}
			defer cancel()
			err := s.answer(ctx, call)
			if _, failed := errors.AsType[*catalog.ModelError](err); failed || !errors.Is(err, want) ||
				time.Since(began) != 5*time.Second {
				t.Errorf("%s: after %v: %v", name, time.Since(began), err)
			}
		})
	}
}

// TestMadeUpRows: a model that crashes on them ends the engine's process once while it is loaded, and only the first of
// them does where it is tried before; one that something else ended is tried by itself, and the proof goes on.
func TestMadeUpRows(t *testing.T) {
	crash := func() *weftest.Engine { return weftest.OverRows(1, func([][]float32) error { return errCrash }) }
	for _, mode := range []modelrepo.BatchMode{modelrepo.BatchAuto, modelrepo.BatchOff, modelrepo.BatchOn} {
		for _, first := range []*weftest.Engine{nil, crash()} {
			e, quarantine := crash(), crash()
			e.Opened.Quarantine = quarantine
			answer, runs := e.Answer, 0
			e.Answer = func(b *tensor.Batch) error {
				runs++
				return answer(b)
			}
			s := serve(t, e, options{change: func(m *modelrepo.Manifest) { m.Batching.Mode = mode }, first: first})
			v, want := s.public(), map[bool]int{true: 1}[first == nil]
			if tries := len(quarantine.Forget()); runs != want || tries != want ||
				v.Batching.Batched != (mode == modelrepo.BatchOn) || strings.Contains(v.Batching.Reason, "on joins them") {
				t.Errorf("%s: %d runs, and %d in quarantine: %+v", mode, runs, tries, v.Batching)
			}
			if first != nil && (len(first.Forget()) != 1 || first.Closed() != 1 || v.RowCrashed != "SIGFPE" ||
				!strings.HasSuffix(fmt.Sprint(v.Signature.Notes), "because the first one crashed: SIGFPE]") ||
				len(s.logs.Event("made_up_row_crashed")) != 1) {
				t.Errorf("%s: a row that was tried before: %+v", mode, v)
			}
		}
	}
	e, quarantine := weftest.PerRow(1, weftest.Double), weftest.PerRow(1, weftest.Double)
	e.Opened.Quarantine = quarantine
	answer, runs := e.Answer, 0
	e.Answer = func(b *tensor.Batch) error {
		if runs++; runs == 2 {
			return errCrash
		}
		return answer(b)
	}
	if v := serve(t, e, options{}).public(); !v.Batching.Batched || len(quarantine.Forget()) != 1 {
		t.Errorf("%+v", v.Batching)
	}
}

// TestTheFirstRowTeachesPatience: the first run where others run, too, has patience by the time of the row that was
// tried; that may take any time.
func TestTheFirstRowTeachesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var patience []time.Duration
		noted := func(took time.Duration) *weftest.Engine {
			e := weftest.PerRow(1, weftest.Double)
			answer := e.Answer
			e.Answer = func(b *tensor.Batch) error {
				patience = append(patience, b.Patience)
				time.Sleep(took)
				return answer(b)
			}
			return e
		}
		serve(t, noted(0), options{first: noted(time.Second), timeout: time.Hour})
		if patience[0] != time.Hour || patience[1] != 20*time.Second {
			t.Errorf("runs had %v, want an hour and 20s first", patience[:2])
		}
	})
}
