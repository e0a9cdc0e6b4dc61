package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/weftserve/weft/examples/plant"
)

// fleet is a number of machines that are steered at once.
type fleet struct {
	options
	kind plant.Kind
	act  func(context.Context, observation) answer
	over func(context.Context, *episode) // called with each finished episode; may be nil
	// differs from run to run, so that no server mistakes an episode for one of an earlier run
	name string
}

func newFleet(o options, kind plant.Kind, act func(context.Context, observation) answer) *fleet {
	if o.steps == 0 || o.steps > kind.MaxSteps {
		o.steps = kind.MaxSteps
	}
	return &fleet{options: o, kind: kind, act: act, name: rand.Text()[:8]}
}

// run plays episodes until every machine has had one and the duration is over, or ctx is. It returns them all,
// those cut short included.
func (f *fleet) run(ctx context.Context) []*episode {
	var (
		mu       sync.Mutex
		episodes []*episode
		wg       sync.WaitGroup
	)
	start := time.Now()
	for i := range f.episodes {
		wg.Go(func() {
			tick := newTicker(start.Add(f.phase(i)), f.period())
			defer tick.stop()
			for round := 0; ctx.Err() == nil; round++ {
				e := f.play(ctx, tick, i, round)
				if e.finished && f.over != nil {
					f.over(ctx, e)
				}
				mu.Lock()
				episodes = append(episodes, e)
				mu.Unlock()
				if time.Since(start) >= f.duration {
					return
				}
			}
		})
	}
	wg.Wait()
	return episodes
}

// phase returns when in the period machine i is observed.
func (f *fleet) phase(i int) time.Duration {
	if f.lockstep {
		return 0
	}
	return f.period() * time.Duration(i) / time.Duration(f.episodes)
}

// play steers machine i through one episode.
func (f *fleet) play(ctx context.Context, tick *ticker, i, round int) *episode {
	choices := len(f.versions)
	wish, turn := f.versions[i%choices], i/choices
	perRound := (f.episodes + choices - 1) / choices
	name := fmt.Sprintf("%s-%s-%d-%d", f.kind.Name, f.name, i, round)
	e := &episode{name: name, wish: wish, seed: f.seed + uint64(round*perRound+turn)}

	machine := f.kind.New()
	values := machine.Reset(e.seed)
	action := make([]float32, f.kind.ActionSize)
	for step := 1; ; step++ {
		observed, err := tick.wait(ctx)
		if err != nil {
			return e
		}
		if f.wait {
			observed = time.Now()
		} else if time.Since(observed) > f.period() {
			e.behind++
		}
		callCtx, cancel := context.WithDeadline(ctx, observed.Add(f.deadline))
		last := step == f.steps
		a := f.act(callCtx, observation{version: wish, episode: name, last: last, values: values})
		cancel()
		if ctx.Err() != nil {
			return e
		}
		e.record(a)
		if a.outcome == answered {
			copy(action, a.action)
		}
		next, reward, done := machine.Step(action)
		e.sum += reward
		if done || last {
			e.finished = true
			return e
		}
		values = next
	}
}

// ticker fires at fixed instants, however late each is waited for: a world that is not looked at moves on.
type ticker struct {
	next   time.Time
	period time.Duration
	timer  *time.Timer
}

func newTicker(first time.Time, period time.Duration) *ticker {
	return &ticker{next: first, period: period, timer: time.NewTimer(time.Until(first))}
}

// wait returns the next instant of the grid once it is there; an instant in the past at once.
func (t *ticker) wait(ctx context.Context) (time.Time, error) {
	select {
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-t.timer.C:
	}
	now := t.next
	t.next = now.Add(t.period)
	t.timer.Reset(time.Until(t.next))
	return now, nil
}

func (t *ticker) stop() { t.timer.Stop() }
