package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
)

// bench is a Manager that runs in virtual time.
type bench struct {
	*Manager
	host     *host
	log      *bytes.Buffer
	draws    *rand.Rand
	episodes int
}

// within runs f in a bubble with a running Manager. Time passes when f sleeps.
func within(t *testing.T, change func(*Config), f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{host: newHost(1, 2, 3), log: &bytes.Buffer{}, draws: rand.New(rand.NewPCG(1, 36))}
		c := Config{Traffic: b.host, Logger: slog.New(slog.NewTextHandler(b.log, nil))}
		if change != nil {
			change(&c)
		}
		b.Manager = New(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			b.Run(ctx)
			close(ended)
		}()
		f(t, b)
		cancel()
		<-ended
	})
}

// faulty is how a request ends by a fault of the model.
var faulty = Ending{Code: "Internal", Fault: true, Drawn: true}

func answered(compute time.Duration) Ending {
	return Ending{Code: Answered, Compute: compute, Drawn: true}
}

// Start, Advance and Abort are those of the Manager, by somebody.

func (b *bench) Start(p Plan) (Rollout, error) { return b.Manager.Start(p, "somebody") }

func (b *bench) Advance(model string) (Rollout, error) { return b.Manager.Advance(model, "somebody") }
func (b *bench) Abort(model string) (Rollout, error)   { return b.Manager.Abort(model, "somebody") }

// pass lets virtual time pass, inside within: the manager's work at the end of it is done then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// serve draws episodes of one request until the candidate has got n, whose reward is near the given one.
func (b *bench) serve(n int, rewards ...float64) {
	for n > 0 {
		b.mu.Lock()
		part := b.runs["m"].stages[len(b.runs["m"].stages)-1].part
		b.mu.Unlock()
		side := baseline
		if b.draws.Float64() < part {
			side = candidate
			n--
		}
		id := b.ask(side)
		b.Report("m", id, int64(side+1), map[string]float64{"reward": rewards[side] + float64(b.draws.IntN(2))}, "")
	}
}

// ask has a version answer the first request of an episode, and returns the name of that.
func (b *bench) ask(side int) string {
	b.episodes++
	id := fmt.Sprint("episode ", b.episodes)
	b.Begun("m", int64(side+1), Beginning{Episode: id, Draw: uint64(b.episodes), At: b.config.Now()})
	e := answered(10 * time.Millisecond)
	e.Episode = id
	b.Observe("m", int64(side+1), e)
	return id
}

func (b *bench) state(t *testing.T) Rollout {
	t.Helper()
	synctest.Wait()
	r, ok := b.Get("m")
	if !ok {
		t.Fatal("no rollout")
	}
	return r
}

func (b *bench) start(t *testing.T, change func(*Plan)) {
	t.Helper()
	p := Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2, Automatic: true, Gate: Gate{
		Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(4.0), MaxErrorRate: 0.1, MaxFailureIncrease: 0.1,
		MaxLostIncrease: 0.1,
	}}
	if change != nil {
		change(&p)
	}
	if _, err := b.Start(p); err != nil {
		t.Fatal(err)
	}
}

func expectSplit(t *testing.T, b *bench, want string) {
	t.Helper()
	if got := b.host.split(); got != want {
		t.Errorf("traffic %q, expected %q", got, want)
	}
}

// last returns the state and the reason of the last step.
func last(r Rollout) (State, string) {
	s := r.Steps[len(r.Steps)-1]
	return s.State, s.Reason
}

func expectEnd(t *testing.T, r Rollout, state State, reason string) {
	t.Helper()
	if s, why := last(r); r.State != state || s != state || !strings.Contains(why, reason) {
		t.Errorf("%v, last step %v because %q; expected %v because of %q", r.State, s, why, state, reason)
	}
}

func TestAutomaticPromotes(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.host.model.Traffic = &catalog.Traffic{Revision: 7, Shadow: []catalog.Shadow{{Version: 3, Sample: 1}}}
		b.start(t, nil)
		time.Sleep(500 * time.Millisecond) // so that no tick falls together with a look of this test
		for _, split := range []string{
			"baseline 1: 99, candidate 2: 1", "baseline 1: 90, candidate 2: 10",
			"baseline 1: 50, candidate 2: 50",
		} {
			expectSplit(t, b, split+", 1 shadows by rollout")
			b.serve(150, 1, 2)
			time.Sleep(28 * time.Second)
			if r := b.state(t); r.Report.Verdict != Promote || len(r.Steps) != r.Stage+1 {
				t.Fatalf("before the stage is over: %+v", r)
			}
			expectSplit(t, b, split+", 1 shadows by rollout")
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		expectSplit(t, b, "baseline 1: 0, candidate 2: 100, 1 shadows by rollout")
		time.Sleep(time.Hour)
		if r := b.state(t); r.State != Running || r.Report.Verdict != Hold {
			t.Fatalf("without a request in the last stage: %+v", r)
		}
		b.serve(100, 0, 0)
		time.Sleep(2 * time.Second)
		r := b.state(t)
		expectEnd(t, r, Promoted, "the gate said PROMOTE")
		expectSplit(t, b, "prod 2: 100, 1 shadows by rollout")
		var percents []float64
		for _, s := range r.Steps {
			percents = append(percents, s.Percent)
			if len(s.Report.Checks) != 7 || s.Report.At.IsZero() {
				t.Errorf("a step without its evidence: %+v", s)
			}
		}
		if d := cmp.Diff([]float64{1, 10, 50, 100, 100}, percents); d != "" {
			t.Error(d)
		}
		if n := strings.Count(b.log.String(), "\n"); n != len(r.Steps) ||
			strings.Count(b.log.String(), "event=rollout_moved") != n ||
			!strings.Contains(b.log.String(), "outcome=\"PROMOTE: the mean of") {
			t.Errorf("%d lines for %d steps:\n%s", n, len(r.Steps), b.log)
		}
	})
}

func TestAutomaticRollsBackAtOnce(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		b.serve(200, 2, 1)
		time.Sleep(2 * time.Second)
		expectEnd(t, b.state(t), RolledBack, `ROLLBACK: the mean of "reward" is 1.`)
		expectSplit(t, b, "prod 1: 100, 0 shadows by rollout")
		b.serve(1, 2, 1)
		time.Sleep(time.Minute)
		if n := b.runs["m"].evidence.Outcome.Count[candidate]; n != 200 {
			t.Errorf("%d episodes counted, one of them after the end", n)
		}
		if got := b.state(t); len(got.Steps) != 2 || b.host.changes != 2 {
			t.Errorf("after the end: %d steps, %d changes", len(got.Steps), b.host.changes)
		}
		b.start(t, nil)
		if e := named(b.state(t).Report, "episodes"); !strings.Contains(e.Reason,
			"counts of 0 episodes of the candidate and 0") {
			t.Errorf("another rollout starts with %q", e.Reason)
		}
	})
}

func TestByHand(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{20, 100} })
		b.serve(200, 2, 1)
		time.Sleep(time.Minute)
		if r := b.state(t); r.State != Running || r.Report.Verdict != Rollback {
			t.Fatalf("%v, %v; expected to be told ROLLBACK and to run on", r.State, r.Report.Verdict)
		}
		for _, split := range []string{"baseline 1: 0, candidate 2: 100", "prod 2: 100"} {
			if _, err := b.Advance("m"); err != nil {
				t.Fatal(err)
			}
			expectSplit(t, b, split+", 0 shadows by rollout")
		}
		expectEnd(t, b.state(t), Promoted, "by hand")
		if _, err := b.Advance("m"); !errors.Is(err, ErrEnded) {
			t.Errorf("advancing what has ended: %v", err)
		}
		if _, err := b.Abort("m"); !errors.Is(err, ErrEnded) {
			t.Errorf("aborting what has ended: %v", err)
		}
	})
}

func TestAbort(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		if _, err := b.Abort("m"); !errors.Is(err, ErrNone) {
			t.Errorf("without a rollout: %v", err)
		}
		b.start(t, nil)
		r, err := b.Abort("m")
		if err != nil {
			t.Fatal(err)
		}
		expectEnd(t, r, Aborted, "by hand")
		r.Steps[0].Reason, r.Stages[0] = "scribble", 77
		if again := b.state(t); again.Steps[0].Reason != "started by hand" || again.Stages[0] != 1 {
			t.Errorf("what Get returned is shared: %+v", again)
		}
		expectSplit(t, b, "prod 1: 100, 0 shadows by rollout")
	})
}

func TestEndsWhenTheGroundMoves(t *testing.T) {
	for _, c := range []struct {
		name, reason, split string
		change              func(*host)
	}{
		{"traffic", `changed by somebody else: it is revision 2 by "SetTraffic", the rollout's was 1; the traffic was left`, "x 3: 1, 0 shadows by SetTraffic", func(h *host) {
			if _, err := h.SetTraffic("m",
				&catalog.Traffic{Source: "SetTraffic", Split: []catalog.Slot{{Name: "x", Version: 3, Weight: 1}}},
				0); err != nil {
				panic(err)
			}
		}},
		{
			"candidate", "the candidate, version 2, is gone", "prod 1: 100, 0 shadows by rollout",
			func(h *host) { h.put(2, 0) },
		},
		{
			"candidate unloading", "the candidate, version 2, is gone", "prod 1: 100, 0 shadows by rollout",
			func(h *host) { h.put(2, catalog.Unloading) },
		},
		{
			"baseline", "the baseline, version 1, is gone; the traffic was left",
			"baseline 1: 99, candidate 2: 1, 0 shadows by rollout", func(h *host) { h.put(1, catalog.Failed) },
		},
	} {
		for _, way := range []string{"look", "advance", "abort"} {
			t.Run(c.name+" "+way, func(t *testing.T) {
				within(t, nil, func(t *testing.T, b *bench) {
					b.start(t, func(p *Plan) { p.Automatic = false })
					c.change(b.host)
					switch way {
					case "advance":
						if _, err := b.Advance("m"); !errors.Is(err, ErrEnded) {
							t.Errorf("advance: %v", err)
						}
					case "abort":
						if _, err := b.Abort("m"); err != nil {
							t.Errorf("abort: %v", err)
						}
					default:
						time.Sleep(2 * time.Second)
					}
					expectEnd(t, b.state(t), Aborted, c.reason)
					expectSplit(t, b, c.split)
				})
			})
		}
	}
}

func TestReloadIsWaitedFor(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		b.host.put(2, catalog.Loading)
		time.Sleep(5 * time.Second)
		if r := b.state(t); r.State != Running {
			t.Errorf("ended as %v while the candidate is loaded anew", r.State)
		}
	})
}

func TestRefusedTrafficIsTriedAgain(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, nil)
		b.serve(200, 2, 1)
		b.host.setRefusal(errors.New("not now"))
		time.Sleep(10 * time.Second)
		if r := b.state(t); r.State != Running || len(r.Steps) != 1 {
			t.Errorf("%v with %d steps although the traffic stayed", r.State, len(r.Steps))
		}
		if n := strings.Count(b.log.String(), "event=rollout_step_failed"); n != 1 ||
			!strings.Contains(b.log.String(), "not now") {
			t.Errorf("the refusal is in the log %d times:\n%s", n, b.log)
		}
		b.host.setRefusal(nil)
		time.Sleep(2 * time.Second)
		expectEnd(t, b.state(t), RolledBack, "ROLLBACK")
	})
}

func TestStartRefuses(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.host.put(3, catalog.Loading)
		start := func(p Plan) error {
			_, err := b.Start(p)
			return err
		}
		var unknown *UnknownError
		if err := start(Plan{Model: "other", BaselineVersion: 1, CandidateVersion: 2}); !errors.As(err, &unknown) ||
			unknown.Version != 0 {
			t.Errorf("unknown model: %v", err)
		}
		if err := start(Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 9}); !errors.As(err, &unknown) ||
			unknown.Version != 9 {
			t.Errorf("unknown version: %v", err)
		}
		var notReady *NotReadyError
		if err := start(Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 3}); !errors.As(err, &notReady) ||
			notReady.State != catalog.Loading {
			t.Errorf("version that is loading: %v", err)
		}
		var plan *PlanError
		if err := start(Plan{Model: "m", BaselineVersion: 1}); !errors.As(err, &plan) {
			t.Errorf("no candidate: %v", err)
		}
		b.host.setRefusal(errors.New("not now"))
		if err := start(Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2}); err == nil {
			t.Error("started although the traffic was refused")
		}
		if all := len(b.runs); all != 0 || b.host.changes != 0 {
			t.Errorf("something was started: %+v", all)
		}
		b.host.setRefusal(nil)
		b.start(t, nil)
		if err := start(Plan{Model: "m", BaselineVersion: 2, CandidateVersion: 1}); !errors.Is(err, ErrRunning) {
			t.Errorf("a second one: %v", err)
		}
	})
}

// TestAgreementCountsFromTheStart: by units, and what failed in the shadow is no agreement.
func TestAgreementCountsFromTheStart(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		for range 100 {
			b.Shown("m", 2, "", "done", false)
		}
		b.start(t, func(p *Plan) { p.Gate = Gate{MinAgreement: 0.9} })
		check := func() GateCheck { return *named(b.state(t).Report, "agreement") }
		if c := check(); c.Verdict != Hold || !strings.Contains(c.Reason, "no request") {
			t.Errorf("at the start: %+v", c)
		}
		for i := range 200 {
			b.Shown("m", 2, "", "done", i%100 > 0)
			b.Shown("m", 1, "", "done", false) // of another shadow
		}
		time.Sleep(2 * time.Second)
		if c := check(); c.Verdict != Promote || !strings.Contains(c.Reason, "a part of 0.99 of") {
			t.Errorf("after two hundred: %+v", c)
		}
		for range 100 { // an episode that disagrees all the time is one unit
			b.ask(baseline)
			b.Shown("m", 2, "episode 1", "done", false)
			b.Shown("m", 2, "of before", "done", false) // nobody knows which unit it is
		}
		time.Sleep(2 * time.Second)
		if c := check(); !strings.Contains(c.Reason, "a part of 0.9851 of") {
			t.Errorf("after an episode: %+v", c)
		}
	})
}

// named returns the check of a report, nil if there is none.
func named(r Report, name string) *GateCheck {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}

// TestTheLastStage: requests are counted by the stage, and the evidence from the start. A candidate that fails once it
// has all traffic is rolled back.
func TestTheLastStage(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.Automatic, p.Stages = false, []float64{50, 100} })
		b.serve(300, 1, 1)
		time.Sleep(2 * time.Second)
		if c := named(b.state(t).Report, "requests"); !strings.Contains(c.Reason, "300 requests") {
			t.Errorf("in the first stage: %+v", c)
		}
		if _, err := b.Advance("m"); err != nil {
			t.Fatal(err)
		}
		b.serve(100, 0, -1000)
		time.Sleep(2 * time.Second)
		r := b.state(t).Report
		if c := named(r, "requests"); !strings.Contains(c.Reason, "100 requests") {
			t.Errorf("in the last stage: %+v", c)
		}
		if c := named(r, "episodes"); !strings.Contains(c.Reason, "counts of 300 episodes of the candidate") {
			t.Errorf("in the last stage: %+v", c)
		}
		for range 100 {
			b.Observe("m", 2, faulty)
		}
		time.Sleep(2 * time.Second)
		if c := named(b.state(t).Report, "errors"); c.Verdict != Promote || !strings.Contains(c.Reason, "all traffic 0.5") {
			t.Errorf("after faults of half of all: %+v", c)
		}
		for range 300 {
			b.Observe("m", 2, faulty)
		}
		time.Sleep(2 * time.Second)
		if c := named(b.state(t).Report, "errors"); c.Verdict != Rollback || !strings.Contains(c.Reason, "all traffic") {
			t.Errorf("after faults: %+v", c)
		}
	})
}

// TestARolloutEnds: without a verdict, when its time is over.
func TestARolloutEnds(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		b.start(t, func(p *Plan) { p.MaxDuration = time.Hour })
		b.serve(1, 1, 1)
		pass(59 * time.Minute)
		if r := b.state(t); r.State != Running {
			t.Fatalf("%v", r.State)
		}
		pass(2 * time.Minute)
		expectEnd(t, b.state(t), Expired, "no verdict within 1h0m0s: ")
		expectSplit(t, b, "prod 1: 100, 0 shadows by rollout")
	})
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	within(t, nil, func(t *testing.T, b *bench) {
		var work sync.WaitGroup
		for i := range 4 {
			work.Go(func() {
				for k := range 500 {
					if k%100 == 0 {
						b.Observe("m", int64(1+k%2), faulty)
					} else {
						b.Observe("m", int64(1+k%2), answered(time.Millisecond))
					}
					b.Begun("m", int64(1+k%2), Beginning{Episode: fmt.Sprint(i, k), Draw: uint64(i*1000 + k), At: time.Now()})
					b.Shown("m", 2, "", "done", k%2 == 0)
					b.Report("m", fmt.Sprint(i, k), int64(1+k%2), map[string]float64{"reward": float64(k)}, "")
					if k%50 == i {
						r, _ := b.Get("m")
						r.Steps = append(r.Steps, Step{})
						time.Sleep(time.Second)
					}
				}
			})
		}
		for range 5 {
			b.start(t, nil)
			time.Sleep(1500 * time.Millisecond)
			if _, err := b.Advance("m"); err != nil && !errors.Is(err, ErrEnded) {
				t.Error(err)
			}
			if _, err := b.Abort("m"); err != nil && !errors.Is(err, ErrEnded) {
				t.Error(err)
			}
		}
		work.Wait()
	})
}

// TestRareFailuresAreNotPromoted: a candidate that does as well as the baseline but for a failure now and then is
// promoted in alpha of the rollouts at most where outcomes have a range, and hardly more often where that has to be
// learnt.
func TestRareFailuresAreNotPromoted(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates many rollouts")
	}
	const rollouts, episodes = 30, 3000
	for _, c := range []struct {
		name     string
		fails    float64 // part of the candidate's episodes
		failure  float64
		spread   float64
		declared bool
	}{
		{"500 and 10", 0.02, 10, 0, true},
		{"500 and 10, seldom", 0.005, 10, 0, true},
		{"about 100 and -1000", 0.03, -1000, 1, true},
		{"500 and 10, undeclared", 0.02, 10, 0, false},
		{"about 100 and -1000, undeclared", 0.03, -1000, 1, false},
	} {
		promoted, rolledBack := 0, 0
		for seed := range uint64(rollouts) {
			within(t, nil, func(t *testing.T, b *bench) {
				rng := rand.New(rand.NewPCG(seed, 36))
				b.start(t, func(p *Plan) {
					p.Stages, p.StageDuration = []float64{50, 100}, time.Second
					if p.Gate.OutcomeMin, p.Gate.OutcomeMax = nil, nil; c.declared {
						p.Gate.OutcomeMin, p.Gate.OutcomeMax = new(min(0, c.failure)), new(500.0)
					}
				})
				state := Running
				for n := 0; n < episodes && state == Running; n++ {
					side := rng.IntN(2)
					reward := 500 - 400*c.spread + c.spread*(rng.Float64()-0.5)
					if side == candidate && rng.Float64() < c.fails {
						reward = c.failure
					}
					b.Report("m", b.ask(side), int64(side+1), map[string]float64{"reward": reward}, "")
					if n%20 == 0 {
						pass(2 * time.Second)
						r := b.state(t)
						if state = r.State; r.Stage > 0 {
							state = Promoted // in the stage that compares
						}
					}
				}
				if state == Promoted {
					promoted++
				} else if state == RolledBack {
					rolledBack++
				}
			})
		}
		t.Logf("%s: %d promoted, %d rolled back of %d", c.name, promoted, rolledBack, rollouts)
		if limit := 0.05*rollouts + 3*math.Sqrt(0.05*0.95*rollouts); float64(promoted) > limit {
			t.Errorf("%s: %d of %d were promoted", c.name, promoted, rollouts)
		}
	}
}
