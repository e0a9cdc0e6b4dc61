package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weftserve/weft/examples/plant"
	"github.com/weftserve/weft/proto/weftclient"
)

// robot steers a machine through episodes, again and again.
type robot struct {
	*crowd

	name, model   string
	machine       plant.Plant
	actions       int // elements of an action
	random        *rand.Rand
	steps, played int
	stream        *weftclient.Stream
}

// newRobot returns the one of that number from 0: first carts, then hoppers.
func newRobot(c *crowd, number int) *robot {
	r := &robot{crowd: c, random: rand.New(rand.NewPCG(uint64(number), 1))}
	kind := plant.CartPole
	r.name, r.model = fmt.Sprintf("cart-%d", number+1), policy
	if number >= carts {
		kind = plant.Hopper
		r.name, r.model = fmt.Sprintf("hopper-%d", number-carts+1), gait
	}
	r.machine, r.actions = kind.New(), kind.ActionSize
	return r
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
	observation := r.machine.Reset(r.random.Uint64())
	name := fmt.Sprintf("%s/%s/episode-%d", r.name, r.began, r.played)
	action := make([]float32, r.actions)
	sum, done, version := 0.0, false, int64(0)
	for step := 0; step < episodeSteps && !done; step++ {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		r.steps++
		answer := ask(ctx, &weftclient.Request{
			Model: weftclient.Model(r.model), Episode: name, ID: fmt.Sprintf("%s/step-%d", r.name, r.steps),
			Inputs: weftclient.Tensors{"observation": weftclient.FromSlice(observation, 1, int64(len(observation)))},
		})
		if answer != nil {
			version = answer.Version
			if values, err := weftclient.Values[float32](answer.Outputs["action"]); err == nil && len(values) == len(action) {
				copy(action, values)
			}
		}
		for range int(period / (20 * time.Millisecond)) { // the machine moves on, with or without a new action
			var reward float64
			if observation, reward, done = r.machine.Step(action); !math.IsNaN(reward) {
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
			Model: weftclient.Version(r.model, version), Episode: name, Reward: &sum,
		})
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
