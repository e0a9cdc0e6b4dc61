package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	limit      = 150 * time.Millisecond // within which answers count, at full speed
	channels   = 32
	mostLag    = 0.2 // of the limit: p99 of how late calls of a run that counts are sent
	roundRobin = "round robin"
	envoyRival = "Envoy, round robin"
	equalCell  = "equal"
)

// cell is servers that are unlike each other in some way.
type cell struct {
	name, about string
	slowed      []float64 // the devices; the first one is the odd one
	beside      bool      // the first one has a caller of its own, which takes half of its device
	load        float64   // of what all can do
}

var cells = []cell{
	{"slow", "one of four is half as fast", []float64{2, 1, 1, 1}, false, 0.8},
	{"shared", "one of four has a caller of its own that takes half its device", []float64{1, 1, 1, 1}, true, 0.6},
	{equalCell, "four equal servers", []float64{1, 1, 1, 1}, false, 0.8},
}

// rate is how many calls a second a cell is offered.
func (c *cell) rate() (sum float64) {
	for _, by := range c.slowed {
		sum += capacity / by
	}
	return c.load * sum
}

// policy is a way to balance calls.
type policy struct {
	name    string
	through string  // the process between callers and servers; "": gRPC of the callers balances
	config  string  // the service config, or its name at weft serviceconfig, or a file of Envoy
	other   string  // the policy that Envoy has instead of its file's
	least   float64 // part of the answers that it promises in time; 0: it promises nothing
	quick   bool    // it is measured with --quick
}

var policies = []policy{
	{name: roundRobin, config: plainRoundRobin, quick: true},
	{name: "least request", config: plainLeastRequest},
	{name: "weighted round robin", config: weighted, least: 0.99, quick: true},
	{name: envoyRival, through: envoyName, config: "weighted.yaml", other: envoyRoundRobin},
	{name: "Envoy, least request", through: envoyName, config: "least-request.yaml"},
	{name: "Envoy, weighted round robin", through: envoyName, config: "weighted.yaml", least: 0.97, quick: true},
	{name: "HAProxy, leastconn", through: haproxyName},
}

// sample is what a policy did in a cell once.
type sample struct {
	calls    int
	inTime   float64 // part of the calls
	p50, p99 float64 // of those answered, over the limit
	odd      float64 // part that the first server had
	lag      float64 // p99 of how late calls were sent, over the limit
	failed   int
}

// balance measures all policies in a cell, in turn. A cell that is measured once and keeps a promise badly is measured
// twice more, and the medians count: the machine may have done something else meanwhile.
func (r *trial) balance(c *cell) error {
	rounds := r.rounds
	for n := 0; n < rounds; n++ {
		if err := r.play(c, n); err != nil {
			return err
		}
		if rounds == 1 && !allMet(r.book.promises(c)) {
			fmt.Fprintf(r.progress, "%s: it is measured twice more, and the medians count\n", c.about)
			rounds = 3
		}
	}
	return nil
}

// play measures all policies in a cell once, against the same servers.
func (r *trial) play(c *cell, round int) (err error) {
	var devices []device
	for _, by := range c.slowed {
		devices = append(devices, slowed(by*float64(r.Slow)))
	}
	f, err := r.startAll(devices, "--isolation=none")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	for i := range policies {
		p := &policies[i]
		if !r.has(p) || r.Quick && !p.quick {
			continue
		}
		var s sample
		for tries := 0; tries == 0 || s.lag > mostLag && tries < 3; tries++ { // late itself, it says nothing of the servers
			if s, err = r.offer(c, p, f, uint64(round)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		fmt.Fprintf(r.progress, "%s, %s: %.2f %% of %d in time, p50 %.2f and p99 %.2f of the limit, first server %.1f %%, "+
			"%d failed, sent late p99 %.3f\n", c.name, p.name, 100*s.inTime, s.calls, s.p50, s.p99, 100*s.odd, s.failed, s.lag)
		r.book.note(c.name, p.name, s)
	}
	return nil
}

// offer offers a cell's load by a policy. What comes while weights settle does not count.
func (r *trial) offer(c *cell, p *policy, f fleet, round uint64) (s sample, err error) {
	between := balancers{}
	defer between.stop()
	all, err := r.open(p, channels, f.targets(), between)
	if err != nil {
		return s, err
	}
	defer all.close()
	own, err := dial(1, "{}", f.targets()[:1])
	if err != nil {
		return s, err
	}
	defer own.close()
	done := make(chan struct{})
	var l, beside ledger
	var loads sync.WaitGroup
	loads.Go(func() { offer(r.ctx, c.rate()/float64(r.Slow), 2*round, done, all.unary(r.ctx, modelName, &l)) })
	if c.beside {
		rate := 0.5 / (otherTime.Seconds() * float64(r.Slow))
		loads.Go(func() { offer(r.ctx, rate, 2*round+1, done, own.unary(r.ctx, otherName, &beside)) })
	}
	pause(r.ctx, r.settle)
	from := time.Now()
	odd, sum, err := f.answered(r.ctx)
	if err == nil {
		pause(r.ctx, r.span)
		var moreOdd, moreSum float64
		moreOdd, moreSum, err = f.answered(r.ctx)
		s.odd = (moreOdd - odd) / max(moreSum-sum, 1)
	}
	until := time.Now()
	close(done)
	loads.Wait()
	s.count(&l, limit*time.Duration(r.Slow), from, until)
	return s, errors.Join(err, r.ctx.Err())
}

// count counts the calls that ought to have been sent in a time.
func (s *sample) count(l *ledger, limit time.Duration, from, until time.Time) {
	var took, lags []float64
	for _, c := range l.calls {
		if c.due.Before(from) || c.due.After(until) {
			continue
		}
		s.calls++
		lags = append(lags, float64(c.lag)/float64(limit))
		if c.err != nil {
			s.failed++
			continue
		}
		took = append(took, float64(c.took)/float64(limit))
		if c.took <= limit {
			s.inTime++
		}
	}
	s.inTime /= float64(max(s.calls, 1))
	s.p50, s.p99, s.lag = quantile(took, 0.5), quantile(took, 0.99), quantile(lags, 0.99)
}
