package breaker_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/server/breaker"
)

// bench is a breaker and the changes that it reported.
type bench struct {
	*breaker.Breaker

	t    *testing.T
	told []string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t}
	b.Breaker = breaker.New(func(s breaker.State) {
		b.told = append(b.told, fmt.Sprintf("%s/%d %s: %s", s.Model, s.Version, s.State, s.Reason))
	})
	return b
}

// outcomes reports n outcomes of version 1 of m.
func (b *bench) outcomes(n int, o breaker.Outcome) {
	for range n {
		b.Done("m", 1, o, 0)
	}
}

// probes asks until it is refused, at most 100 times, and returns how often it was allowed.
func (b *bench) probes() int {
	for n := range 100 {
		if !b.Allow("m", 1) {
			return n
		}
	}
	return 100
}

func (b *bench) wantTold(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.told); diff != "" {
		b.t.Errorf("changes told (-want +got):\n%s", diff)
	}
	b.told = nil
}

func (b *bench) wantAllowed(when string, want bool) {
	b.t.Helper()
	if got := b.Allow("m", 1); got != want {
		b.t.Errorf("%s: Allow is %v, want %v", when, got, want)
	}
}

func TestOpensOnFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.wantAllowed("never heard of", true)
		b.outcomes(9, breaker.Fault)
		b.wantAllowed("9 requests, 10 are needed", true)
		b.outcomes(1, breaker.Fault)
		b.wantAllowed("10 of 10 failed", false)
		b.wantTold("m/1 open: 10 of the last 10 requests failed")
		if !b.Allow("m", 2) || !b.Allow("n", 1) {
			t.Error("another version's circuit opened too")
		}
	})
}

func TestJudgesTheLastRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(1000, breaker.OK)
		b.outcomes(9, breaker.Fault)
		b.wantAllowed("9 of 20 failed", true)
		b.outcomes(11, breaker.OK)
		b.outcomes(9, breaker.Fault)
		b.wantAllowed("9 of 20 failed, those before are forgotten", true)
		b.outcomes(1, breaker.Fault)
		b.wantTold("m/1 open: 10 of the last 20 requests failed")
	})
}

func TestIgnoredSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(1000, breaker.Ignored)
		b.wantAllowed("overload", true)
		if states := b.States(); len(states) != 0 {
			t.Errorf("overload made the circuits %+v", states)
		}
		// Refusals count neither for nor against the version: nine faults are as many among a thousand refusals.
		for range 9 {
			b.outcomes(100, breaker.Ignored)
			b.outcomes(1, breaker.Fault)
		}
		b.wantAllowed("9 faults", true)
		b.outcomes(1, breaker.Fault)
		b.wantAllowed("10 faults", false)
		time.Sleep(5 * time.Second)
		if n := b.probes(); n != 3 {
			t.Errorf("%d probes", n)
		}
		b.outcomes(3, breaker.Ignored)
		b.wantAllowed("probes that said nothing", false)
		if s := b.States()[0]; s.State != breaker.HalfOpen {
			t.Errorf("probes that said nothing made it %+v", s)
		}
	})
}

func TestRecoversByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		b.told = nil
		time.Sleep(5*time.Second - 1)
		b.wantAllowed("before the pause is over", false)
		time.Sleep(1 * time.Nanosecond)
		if n := b.probes(); n != 3 {
			t.Errorf("%d probes at a time, want 3", n)
		}
		b.wantTold("m/1 half-open: 5s passed")
		b.outcomes(2, breaker.OK)
		if n := b.probes(); n != 0 {
			t.Errorf("%d more probes while one is out, want none", n)
		}
		b.outcomes(1, breaker.OK)
		b.wantTold("m/1 closed: 3 probes were answered")
		if n := b.probes(); n != 100 {
			t.Errorf("a closed circuit allows %d of 100", n)
		}
		b.outcomes(9, breaker.Fault)
		b.wantAllowed("the faults from before it opened are forgotten", true)
	})
}

// TestProbesOneByOne: where requests are rare each probe ends before the next comes.
func TestProbesOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		time.Sleep(5 * time.Second)
		for range 3 {
			b.wantAllowed("the one before was answered", true)
			b.outcomes(1, breaker.OK)
		}
		if s := b.States()[0]; s.State != breaker.Closed {
			t.Errorf("%+v", s)
		}
	})
}

func TestPausesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		for _, seconds := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
			want := time.Duration(seconds) * time.Second
			if s := b.States()[0]; s.Until.Sub(s.Since) != want || !s.Since.Equal(time.Now()) || s.State != breaker.Open {
				t.Errorf("%+v, want a pause of %v", s, want)
			}
			time.Sleep(want - 1)
			b.wantAllowed("before the end of the pause", false)
			time.Sleep(1 * time.Nanosecond)
			b.wantAllowed("after the pause", true)
			b.outcomes(1, breaker.Fault)
			b.wantAllowed("a probe failed", false)
		}
		time.Sleep(300 * time.Second)
		b.probes()
		b.outcomes(3, breaker.OK)
		time.Sleep(300 * time.Second)
		b.outcomes(20, breaker.Fault)
		if s := b.States()[0]; s.Until.Sub(s.Since) != 5*time.Second {
			t.Errorf("after as long well as the last pause: %+v, want a pause of 5 s", s)
		}
	})
}

// TestRelapseDoubles: a version that answers probes and fails under load must not be tried every five seconds for ever.
func TestRelapseDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if s := b.States()[0]; s.Until.Sub(s.Since) != pause {
				t.Errorf("%+v, want a pause of %v", s, pause)
			}
			time.Sleep(pause)
			b.probes()
			b.outcomes(3, breaker.OK)
			b.wantAllowed("closed", true)
			time.Sleep(pause - 1)
			b.outcomes(10, breaker.Fault)
		}
	})
}

func TestLostProbesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		time.Sleep(5 * time.Second)
		allowed := 0
		for range 600 { // a minute of probes that are never heard of
			allowed += b.probes()
			time.Sleep(100 * time.Millisecond)
		}
		if allowed != 3*12 {
			t.Errorf("%d probes in a minute, want 3 each 5 s", allowed)
		}
		b.outcomes(3, breaker.OK)
		b.wantAllowed("three were answered at last", true)
		if s := b.States()[0]; s.State != breaker.Closed {
			t.Errorf("%+v", s)
		}
	})
}

// TestHealsThroughRunningEpisodes: nobody asks, but requests that cannot be turned away end well.
func TestHealsThroughRunningEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		b.outcomes(100, breaker.OK)
		b.wantAllowed("within the pause", false)
		time.Sleep(5 * time.Second)
		b.told = nil
		b.outcomes(3, breaker.OK)
		b.wantTold("m/1 half-open: 5s passed", "m/1 closed: 3 probes were answered")
	})
}

func TestOpensOnLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(20, breaker.OK)
		b.outcomes(9, breaker.Slow)
		b.wantAllowed("9 of 20 slow", true)
		b.outcomes(1, breaker.Slow)
		b.wantTold("m/1 open: 10 of the last 20 requests were slow")
		time.Sleep(5 * time.Second)
		b.probes()
		b.told = nil
		b.outcomes(1, breaker.OK)
		b.outcomes(2, breaker.Slow)
		b.wantTold("m/1 open: 2 of 3 probes were slow")
		time.Sleep(10 * time.Second)
		b.told = nil
		b.outcomes(1, breaker.Slow)
		b.outcomes(2, breaker.OK)
		b.wantTold("m/1 half-open: 10s passed", "m/1 closed: 3 probes were answered")
	})
}

func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		b.Done("n", 1, breaker.OK, 0)
		b.Done("m", 2, breaker.Fault, 0)
		b.outcomes(8, breaker.OK)
		b.outcomes(7, breaker.Fault)
		time.Sleep(time.Second)
		b.outcomes(1, breaker.Fault)
		want := []breaker.State{
			{
				Model: "m", Version: 1, State: breaker.Open, Since: time.Now(), Until: time.Now().Add(5 * time.Second),
				Requests: 16, Errors: 8, Reason: "8 of the last 16 requests failed",
			},
			{Model: "m", Version: 2, State: breaker.Closed, Since: began, Requests: 1, Errors: 1},
			{Model: "n", Version: 1, State: breaker.Closed, Since: began, Requests: 1},
		}
		if diff := cmp.Diff(want, b.States()); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

// TestOneCallerOpensNothing: half of the requests must fail, and with those of more than one episode or caller.
func TestOneCallerOpensNothing(t *testing.T) {
	for _, kind := range []breaker.Outcome{breaker.Fault, breaker.Slow} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			for range 1000 {
				b.Done("m", 1, kind, 7)
			}
			b.outcomes(5, breaker.OK)
			b.wantAllowed("all that failed is of one episode", true)
			b.Done("m", 1, kind, 8)
			b.wantAllowed("two episodes", false)
		})
	}
}

// TestTrials: a version has so many trials of failed requests elsewhere, and earns more by its requests.
func TestTrials(t *testing.T) {
	b := newBench(t)
	trials := func() (n int) {
		for tried := true; tried; n++ {
			tried = false
			b.Excuse("m", 1, 2, func() breaker.Trial { tried = true; return breaker.Untried })
		}
		return n - 1
	}
	// Asking earns a tenth of a trial too.
	if n := trials(); n != 22 {
		t.Errorf("%d trials at first, want 20 and 2", n)
	}
	b.outcomes(105, breaker.OK)
	if n := trials(); n != 11 {
		t.Errorf("%d trials after 105 requests, want 10 and 1", n)
	}
	b.outcomes(100_000, breaker.OK)
	if n := trials(); n != 22 {
		t.Errorf("%d trials after many requests, want 20 and 2", n)
	}
}

// TestExcuses: of the requests that are not tried elsewhere, the same part is excused as of the requests that were
// tried, and none where nobody was answered lately.
func TestExcuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tried := func(trial breaker.Trial) bool {
			b.outcomes(10, breaker.Slow) // which earn a trial, and are answers
			return b.Excuse("m", 1, 2, func() breaker.Trial { return trial })
		}
		excuse := func(trial breaker.Trial) bool {
			return b.Excuse("m", 1, 2, func() breaker.Trial { return trial })
		}
		if excuse(breaker.FailedToo) || excuse(breaker.Untried) {
			t.Error("a version that never answered, nor did the other, is excused")
		}
		excused := 0
		for i := range 1000 {
			trial := []breaker.Trial{breaker.AnsweredElsewhere, breaker.FailedToo}[min(i%4, 1)]
			if failed := trial == breaker.FailedToo; tried(trial) != failed {
				t.Fatalf("request %d failed elsewhere: %v", i, failed)
			}
			if excuse(breaker.Untried) {
				excused++
			}
		}
		if excused < 700 || excused > 800 {
			t.Errorf("%d of 1000 are excused, want some 750", excused)
		}
		b.outcomes(100, breaker.Slow)
		time.Sleep(10 * time.Second)
		if excuse(breaker.FailedToo) {
			t.Error("a version is excused by none that has answered for ten seconds")
		}
	})
}

func TestForgetsVersionsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.outcomes(10, breaker.Fault)
		b.Done("m", 2, breaker.OK, 0)
		b.told = nil
		time.Sleep(30 * time.Minute)
		b.Done("m", 2, breaker.OK, 0)
		time.Sleep(30*time.Minute + 1)
		b.Done("m", 3, breaker.OK, 0)
		b.wantTold("m/1 closed: nothing was heard of it for an hour")
		var known []int64
		for _, s := range b.States() {
			known = append(known, s.Version)
		}
		if diff := cmp.Diff([]int64{2, 3}, known); diff != "" {
			t.Errorf("versions known (-want +got):\n%s", diff)
		}
	})
}

// TestManyAtOnce is for the race detector, and for properties that must hold in any order.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes sync.Map
		b := breaker.New(func(s breaker.State) { changes.Store(s.State, s) })
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for j := range 2_000 {
					outcome := breaker.OK
					if j/100%2 == 0 {
						outcome = breaker.Fault
					}
					if version := int64(j % 3); b.Allow("m", version) {
						b.Done("m", version, outcome, 0)
					}
					b.States()
					if j%50 == 0 {
						time.Sleep(10 * time.Minute) // the longest pause, twice
					}
				}
			})
		}
		wg.Wait()
		for _, phase := range []breaker.Phase{breaker.Open, breaker.HalfOpen, breaker.Closed} {
			if _, ok := changes.Load(phase); !ok {
				t.Errorf("no circuit was ever %s", phase)
			}
		}
	})
}

func BenchmarkAllowAndDone(b *testing.B) {
	health := breaker.New(func(breaker.State) {})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			health.Allow("policy", 1)
			health.Done("policy", 1, breaker.OK, 0)
		}
	})
}
