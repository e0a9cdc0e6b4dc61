package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/examples/cartpole"
	"github.com/weftserve/weft/proto/weftclient"
)

// Load of the demo. It is moderate: two processors do it, with room to look.
const (
	robots       = 10
	period       = 40 * time.Millisecond // between two requests of a robot
	episodeSteps = 80                    // of an episode that does not fail
	rankerEvery  = 150 * time.Millisecond
	// flooding is how many times the load there is during a flood.
	flooding = 10
	// patience is the limit of a robot's request: after that it acts without an answer.
	patience = 200 * time.Millisecond
	// mostInFlight bounds the requests of a flood that have no answer yet.
	mostInFlight = 400
)

// crowd is everybody who asks the server.
type crowd struct {
	client *weftclient.Client
	done   sync.WaitGroup
	flood  atomic.Bool
	// counts of requests and how they ended
	answered, refused atomic.Int64
}

func (c *crowd) start(ctx context.Context) {
	for i := range robots {
		r := &robot{crowd: c, name: fmt.Sprintf("robot-%d", i+1), random: rand.New(rand.NewPCG(uint64(i), 1))}
		ask := r.unary
		if i%2 == 1 {
			ask = r.streamed
		}
		c.done.Go(func() { r.live(ctx, ask) })
	}
	c.done.Go(func() { c.rank(ctx) })
	c.done.Go(func() { c.rush(ctx) })
}

// robot balances a pole, again and again.
type robot struct {
	*crowd

	name          string
	random        *rand.Rand
	steps, played int
	stream        *weftclient.Stream
}

// live plays episodes until the context ends.
func (r *robot) live(ctx context.Context, ask func(context.Context, *weftclient.Request) *weftclient.Answer) {
	// Robots do not move in step.
	select {
	case <-time.After(time.Duration(r.random.Int64N(int64(period)))):
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.episode(ctx, tick.C, ask)
	}
}

// episode plays one and reports its reward.
func (r *robot) episode(ctx context.Context, tick <-chan time.Time,
	ask func(context.Context, *weftclient.Request) *weftclient.Answer,
) {
	r.played++
	var env cartpole.Env
	observation := env.Reset(r.random.Uint64())
	name := fmt.Sprintf("%s/episode-%d", r.name, r.played)
	action := make([]float32, cartpole.ActionSize)
	sum, done, version := 0.0, false, int64(0)
	for step := 0; step < episodeSteps && !done; step++ {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		r.steps++
		answer := ask(ctx, &weftclient.Request{
			Model: weftclient.Model(policy), Episode: name, ID: fmt.Sprintf("%s/step-%d", r.name, r.steps),
			Inputs: weftclient.Tensors{"observation": weftclient.FromSlice(observation, 1, cartpole.ObservationSize)},
		})
		if answer != nil {
			version = answer.Version
			if values, err := weftclient.Values[float32](answer.Outputs["action"]); err == nil && len(values) == len(action) {
				copy(action, values)
			}
		}
		for range int(period / (20 * time.Millisecond)) { // the machine moves on, with or without a new action
			var reward float64
			if observation, reward, done = env.Step(action); !math.IsNaN(reward) {
				sum += reward
			}
			if done {
				break
			}
		}
	}
	if version != 0 && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, _ = r.client.ReportOutcome(ctx, &weftclient.Outcome{ // without a report the episode counts as lost
			Model: weftclient.Version(policy, version), Episode: name, Reward: &sum,
		})
	}
}

func (c *crowd) count(err error) {
	if err == nil {
		c.answered.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// unary asks with a call; nil is no answer.
func (r *robot) unary(ctx context.Context, q *weftclient.Request) *weftclient.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := r.client.Predict(ctx, q)
	if r.count(err); err != nil {
		return nil
	}
	return answer
}

// streamed asks on the robot's stream.
func (r *robot) streamed(ctx context.Context, q *weftclient.Request) *weftclient.Answer {
	if r.stream == nil {
		stream, err := r.client.PredictStream(ctx)
		if err != nil {
			return nil
		}
		r.stream = stream
	}
	if r.stream.Send(&weftclient.StreamRequest{Request: *q, Timeout: patience}) == nil {
		if answer, err := r.stream.Recv(); err == nil {
			r.count(answer.Err)
			return answer.Answer
		}
	}
	r.stream = nil // another one next time
	return nil
}

// rank asks for large batches.
func (c *crowd) rank(ctx context.Context) {
	tick := time.NewTicker(rankerEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			c.done.Go(func() { c.rankOnce(ctx, fmt.Sprintf("page-%d", n)) })
		case <-ctx.Done():
			return
		}
	}
}

func (c *crowd) rankOnce(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := c.client.Predict(ctx, &weftclient.Request{
		Model: weftclient.Model(ranker), ID: id, Inputs: weftclient.Tensors{
			"items": weftclient.FromSlice(make([]float32, rankerRows*rankerWidth), rankerRows, rankerWidth),
		},
	})
	c.count(err)
}

// rush adds the rest of ten times the load during a flood: requests that wait for no answer before the next.
func (c *crowd) rush(ctx context.Context) {
	const beat = 10 * time.Millisecond
	each := float64(robots*(flooding-1)) * float64(beat) / float64(period)
	pages := float64(flooding-1) * float64(beat) / float64(rankerEvery)
	free := make(chan struct{}, mostInFlight)
	owedSteps, owedPages := 0.0, 0.0
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for n := 1; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !c.flood.Load() {
			continue
		}
		for owedSteps += each; owedSteps >= 1; owedSteps-- {
			id := fmt.Sprintf("crowd/step-%d", n)
			c.rushOne(ctx, free, func() { c.step(ctx, id) })
			n++
		}
		for owedPages += pages; owedPages >= 1; owedPages-- {
			id := fmt.Sprintf("crowd/page-%d", n)
			c.rushOne(ctx, free, func() { c.rankOnce(ctx, id) })
			n++
		}
	}
}

// rushOne asks, unless too many wait.
func (c *crowd) rushOne(ctx context.Context, free chan struct{}, ask func()) {
	select {
	case free <- struct{}{}:
		c.done.Go(func() {
			ask()
			<-free
		})
	case <-ctx.Done():
	default:
	}
}

// step asks the policy once, for nobody.
func (c *crowd) step(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.client.Predict(ctx, &weftclient.Request{
		Model: weftclient.Model(policy), ID: id, Inputs: weftclient.Tensors{
			"observation": weftclient.FromSlice(make([]float32, cartpole.ObservationSize), 1, cartpole.ObservationSize),
		},
	})
	c.count(err)
}
