package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bench is a Manager that runs in virtual time.
type bench struct {
	*Manager
	host     *host
	log      *bytes.Buffer
	draws    *rand.Rand
	episodes int
	stop     func()
}

// within runs f in a bubble with a running Manager. Time passes when f sleeps.
func within(t *testing.T, change func(*Config), f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, change)) })
}

func newBench(t *testing.T, change func(*Config)) *bench {
	b := &bench{host: newHost(1, 2, 3), log: &bytes.Buffer{}, draws: rand.New(rand.NewPCG(1, 36))}
	c := Config{Traffic: b.host, Logger: slog.New(slog.NewTextHandler(b.log, nil))}
	if change != nil {
		change(&c)
	}
	b.run(t, c)
	return b
}

// run runs a manager until the test or the manager's life ends.
func (b *bench) run(t *testing.T, c Config) {
	b.Manager = New(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		b.Run(ctx)
		close(ended)
	}()
	b.stop = func() {
		cancel()
		<-ended
	}
}

// restart has another manager take over what the one before kept.
func (b *bench) restart(t *testing.T, change func(*Kept)) {
	b.stop()
	c := b.config
	c.Kept = b.host.lastKept()
	k := c.Kept["m"]
	change(&k)
	c.Kept["m"] = k
	b.run(t, c)
	synctest.Wait()
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
		b.Report("m", id, int64(side+1), map[string]float64{"reward": rewards[side] + float64(b.draws.IntN(2))}, nil, "")
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
	if all := b.Candidates(); len(all) != 1 || all[0] != (Candidate{"m", r.CandidateVersion, r.State}) {
		t.Errorf("the candidates are %v; expected that of %v", all, r)
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

// named returns the check of a report, nil if there is none.
func named(r Report, name string) *GateCheck {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
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
					b.Report("m", fmt.Sprint(i, k), int64(1+k%2), map[string]float64{"reward": float64(k)}, nil, "")
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
