package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/examples/plant"
	"github.com/weftserve/weft/proto/weftclient"
)

// Load of the demo. It is moderate: two processors do it, with room to look.
const (
	carts, hoppers = 8, 6
	robots         = carts + hoppers
	period         = 40 * time.Millisecond // between two requests of a robot
	episodeSteps   = 80                    // of an episode that does not fail
	rankerEvery    = 25 * time.Millisecond
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
	// began is the time of the day, part of the names of episodes: versions are dealt out by names, so that each demo has
	// a deal of its own.
	began string
	done  sync.WaitGroup
	flood atomic.Bool
	// counts of requests and how they ended
	answered, refused atomic.Int64
}

func (c *crowd) start(ctx context.Context) {
	for i := range robots {
		r := newRobot(c, i)
		ask := r.unary
		if i%2 == 1 {
			ask = r.streamed
		}
		c.done.Go(func() { r.live(ctx, ask) })
	}
	c.done.Go(func() { c.rank(ctx) })
	c.done.Go(func() { c.rush(ctx) })
}

func (c *crowd) count(err error) {
	if err == nil {
		c.answered.Add(1)
	} else {
		c.refused.Add(1)
	}
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
	each := float64(carts*(flooding-1)) * float64(beat) / float64(period)
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
			"observation": weftclient.FromSlice(make([]float32, plant.CartPole.ObservationSize), 1,
				int64(plant.CartPole.ObservationSize)),
		},
	})
	c.count(err)
}
