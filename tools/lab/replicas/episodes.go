package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	episodesTitle = "Episodes while servers are replaced"
	ringTitle     = "A ring of episodes"
	loops         = 48 // episodes whose step is asked for at once
	ringEpisodes  = 2000
)

// quick is a device that takes no time to speak of.
func quick(versions ...int64) device {
	return device{50 * time.Microsecond, time.Microsecond, versions}
}

// step asks for a step of an episode, and returns the version that answered.
func (p *pool) step(ctx context.Context, i int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := p.clients[i%len(p.clients)].Predict(ctx, request(modelName, fmt.Sprintf("robot-%d", i)))
	if err != nil {
		return 0, err
	}
	return answer.Version, nil
}

// episodes replaces all servers while episodes go on, whose steps go to any of them. The traffic has two versions.
func (r *trial) episodes() (err error) {
	d := quick(1, 2)
	f, err := r.startAll(slices.Repeat([]device{d}, pods), r.flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	channels, err := r.open(&policy{config: plainRoundRobin}, rollingSlots, f.targets(), balancers{})
	if err != nil {
		return err
	}
	defer channels.close()
	versions := make([]atomic.Int64, r.robots)
	var answers, moved, failed atomic.Int64
	walk := func() {
		var next atomic.Int64
		var all sync.WaitGroup
		for range loops {
			all.Go(func() {
				for i := next.Add(1) - 1; int(i) < len(versions) && r.ctx.Err() == nil; i = next.Add(1) - 1 {
					version, err := channels.step(r.ctx, int(i))
					answers.Add(1)
					if err != nil && failed.Add(1) == 1 {
						fmt.Fprintf(r.progress, "the first step that failed: %v\n", err)
					}
					if err == nil && !versions[i].CompareAndSwap(0, version) && versions[i].Load() != version {
						moved.Add(1)
					}
				}
			})
		}
		all.Wait()
	}
	walk() // each has a version before the first server is told to stop
	ended := make(chan error, 1)
	go func() { ended <- r.replace(f, time.Second, d, channels.set) }()
	for going := true; going; {
		select {
		case err = <-ended:
			going = false
		default:
		}
		walk()
	}
	first := 0
	for i := range versions {
		if versions[i].Load() == 1 {
			first++
		}
	}
	r.row(episodesTitle, len(versions), answers.Load(), failed.Load(),
		fmt.Sprintf("%.1f %%", 100*float64(first)/float64(len(versions))), moved.Load())
	r.book.none(fmt.Sprintf("%d episodes through a rolling restart: answers of another version", len(versions)),
		int(moved.Load()))
	r.book.none("steps of them that failed", int(failed.Load()))
	return errors.Join(err, r.ctx.Err())
}

// ring has episodes stay with servers by a ring. Each server has another version, so that answers name it.
func (r *trial) ring() (err error) {
	var devices []device
	for i := range pods {
		devices = append(devices, quick(int64(i+1)))
	}
	f, err := r.startAll(devices, r.flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	kinds := []*kind{{name: "gRPC", policy: policy{config: ring}}}
	if through := (policy{through: envoyName, config: "ring-hash.yaml"}); r.has(&through) && !r.Quick {
		kinds = append(kinds, &kind{name: envoyName, policy: through})
	}
	shared := balancers{}
	defer shared.stop()
	for _, k := range kinds {
		if k.pool, err = r.open(&k.policy, rollingSlots, f.targets(), shared); err != nil {
			return err
		}
	}
	homes := func() (all [][]int64, err error) {
		for _, k := range kinds {
			of := make([]int64, ringEpisodes)
			for i := 0; i < len(of) && err == nil; i++ { // one at a time: a bounded load must not send one elsewhere
				of[i], err = k.pool.step(r.ctx, i)
			}
			all = append(all, of)
		}
		return all, err
	}
	before, err := homes()
	if err := errors.Join(err, set(kinds, f[1:].targets()), f[0].Stop()); err != nil {
		return err
	}
	pause(r.ctx, settleNew)
	between, err := homes()
	if err != nil {
		return err
	}
	if f[0], err = r.start(f[0].pod, devices[0], r.flags...); err != nil {
		return err
	}
	if err := set(kinds, f.targets()); err != nil {
		return err
	}
	pause(r.ctx, 4*settleNew) // until health checks have seen it
	after, err := homes()
	if err != nil {
		return err
	}
	for i, k := range kinds {
		fled, moved, its := 0, 0, 0
		for e, home := range before[i] {
			if home == 1 {
				its++
			} else if between[i][e] != home {
				fled++
			}
			if after[i][e] != home {
				moved++
			}
		}
		r.row(ringTitle, k.name, ringEpisodes, its, fled, moved)
		r.book.none(k.name+", ring: episodes that moved when a server returned at another address", moved)
	}
	return r.ctx.Err()
}
