package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// load is callers of one model whose calls come when they come, however long earlier ones take: an open loop with
// Poisson arrivals. Each call brings one row.
type load struct {
	model  string
	course []stretch
	limit  time.Duration // deadline of each call
	target time.Duration // target_latency of each call; 0: none
	seed   uint64
}

// stretch is a time of constant rate.
type stretch struct {
	rate float64 // calls per second
	span time.Duration
}

func steady(rate float64, span time.Duration) []stretch { return []stretch{{rate, span}} }

// arrivals returns when calls come, since the beginning.
func (l *load) arrivals() []time.Duration {
	rng := rand.New(rand.NewPCG(l.seed, 1))
	var all []time.Duration
	begin := time.Duration(0)
	for _, s := range l.course {
		for at := begin; ; {
			at += time.Duration(rng.ExpFloat64() / s.rate * float64(time.Second))
			if at >= begin+s.span {
				break
			}
			all = append(all, at)
		}
		begin += s.span
	}
	return all
}

// ask makes one call. The context brings its deadline.
type ask func(ctx context.Context, l *load) error

// run makes the calls of several loads concurrently. It returns them with their ends, by load, once the last has ended.
func run(ctx context.Context, ask ask, loads []load) []calls {
	all := make([]calls, len(loads))
	begin := time.Now()
	var running sync.WaitGroup
	for i := range loads {
		l := &loads[i]
		arrivals := l.arrivals()
		all[i] = make(calls, len(arrivals))
		running.Go(func() {
			for k, at := range arrivals {
				if wait := at - time.Since(begin); wait > 0 {
					<-time.After(wait)
				}
				start := time.Now()
				running.Go(func() {
					ctx, cancel := context.WithDeadline(ctx, start.Add(l.limit))
					defer cancel()
					end := ending(ask(ctx, l))
					all[i][k] = call{at: at, took: time.Since(start), lag: start.Sub(begin) - at, end: end}
				})
			}
		})
	}
	running.Wait()
	return all
}

// inProcess asks a house.
func inProcess(h *synthHouse) ask {
	inputs := []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: make([]byte, 16)}}
	return func(ctx context.Context, l *load) error {
		limit, _ := ctx.Deadline()
		v := h.host.Snapshot().Model(l.model).Newest()
		return h.Predict(ctx, &catalog.Call{Version: v, Rows: 1, Inputs: inputs, Limit: limit, Target: l.target})
	}
}
