package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// trial is a run of the program.
type trial struct {
	*runCommand
	effort

	ctx      context.Context //nolint:containedctx // a trial is as short as a call
	progress io.Writer
	folder   string
	started  int // processes, which have folders of their own
	book     book
}

const (
	limit      = 150 * time.Millisecond // within which answers count, at full speed
	channels   = 32
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
	config  string  // the service config, or a file of Envoy; "": what weft serviceconfig wrr prints
	other   string  // the policy that Envoy has instead of its file's
	least   float64 // part of the answers that it promises in time; 0: it promises nothing
	quick   bool    // it is measured with --quick
	idle    bool    // it connects with the first call
}

var policies = []policy{
	{name: roundRobin, config: plainRoundRobin, quick: true},
	{name: "least request", config: plainLeastRequest},
	{name: "weighted round robin", least: 0.99, quick: true},
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

// balance measures all policies in all cells, in turn. A cell that keeps a promise badly is measured twice more, and
// the median counts: the machine may have done something else meanwhile.
func (r *trial) balance() error {
	for i := range cells {
		c := &cells[i]
		if !r.wantsCell(c.name) {
			continue
		}
		rounds := r.rounds
		for n := 0; n < rounds; n++ {
			if err := r.playCell(c, n); err != nil {
				return err
			}
			if n == 0 && rounds == 1 && !allMet(r.book.promises(c)) {
				fmt.Fprintf(r.progress, "%s: measured twice more, and the medians count\n", c.about)
				rounds = 3
			}
		}
	}
	return nil
}

// playCell measures all policies in a cell once, against the same servers.
func (r *trial) playCell(c *cell, round int) (err error) {
	var devices []device
	for _, by := range c.slowed {
		devices = append(devices, slowed(by*float64(r.Slow)))
	}
	f, err := r.startAll(r.ctx, devices, "--isolation=none")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	for i := range policies {
		p := &policies[i]
		if !r.picks(*p) {
			continue
		}
		s, err := r.play(c, p, f, uint64(round))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name, p.name, err)
		}
		fmt.Fprintf(r.progress, "%s, %s: %.2f %% of %d in time, p50 %.2f and p99 %.2f of the limit, first server %.1f %%, "+
			"%d failed, sent late p99 %.3f\n", c.name, p.name, 100*s.inTime, s.calls, s.p50, s.p99, 100*s.odd, s.failed, s.lag)
		r.book.note(c.name, p.name, s)
	}
	return nil
}

// way returns channels that balance as a policy says, and what ends them.
func (r *trial) way(p *policy, n int, targets []target) (*pool, func(), error) {
	config := p.config
	var between *balancer
	var err error
	switch {
	case p.through == envoyName:
		between, err = r.envoy(p.config, p.other, targets)
	case p.through == haproxyName:
		between, err = r.haproxy(targets)
	case config == "":
		config, err = r.shipped("wrr")
	}
	if err != nil {
		return nil, nil, err
	}
	end := func() {}
	if between != nil {
		config, targets, end = "{}", []target{{grpc: between.address}}, between.stop
	}
	channels, err := dial(n, config, targets)
	if err == nil {
		err = channels.connect(r.ctx)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return channels, func() { channels.close(); end() }, nil
}

// play offers a cell's load by a policy. What comes while weights settle does not count.
func (r *trial) play(c *cell, p *policy, f fleet, round uint64) (s sample, err error) {
	channels, end, err := r.way(p, channels, f.targets())
	if err != nil {
		return s, err
	}
	defer end()
	own, err := dial(1, "{}", f.targets()[:1])
	if err != nil {
		return s, err
	}
	defer own.close()
	done := make(chan struct{})
	var l, beside ledger
	var loads sync.WaitGroup
	seed := 10*round + 1
	loads.Go(func() {
		offer(r.ctx, c.rate()/float64(r.Slow), seed, done, channels.unary(r.ctx, modelName, &l))
	})
	if c.beside {
		rate := 0.5 / (otherTime.Seconds() * float64(r.Slow))
		loads.Go(func() { offer(r.ctx, rate, seed+1, done, own.unary(r.ctx, otherName, &beside)) })
	}
	pause(r.ctx, r.settle)
	from := time.Now()
	before, err := f.answered(r.ctx)
	if err == nil {
		pause(r.ctx, r.span)
		var after counts
		if after, err = f.answered(r.ctx); err == nil {
			s.odd = after.minus(before).part(0)
		}
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

// counts are numbers of the servers.
type counts []float64

func (c counts) minus(other counts) counts {
	result := make(counts, len(c))
	for i := range c {
		result[i] = c[i] - other[i]
	}
	return result
}

// part is a server's part of the sum.
func (c counts) part(i int) float64 {
	sum := 0.0
	for _, v := range c {
		sum += v
	}
	return c[i] / max(sum, 1)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Run measures in a folder of its own.
func (c *runCommand) Run(ctx context.Context, o harness.Output) error {
	return harness.InFolder("weft-replicas", func(folder string) error {
		r := &trial{runCommand: c, effort: c.effort(), ctx: ctx, progress: o.Err, folder: folder, book: newBook()}
		for name, program := range map[string]string{envoyName: c.Envoy, haproxyName: c.Haproxy} {
			if program == "" {
				fmt.Fprintf(o.Err, "replicas: SKIPPED: what goes through %s, which is not here\n", name)
			}
		}
		var err error
		for _, p := range parts {
			if c.wants(p.name) && ctx.Err() == nil {
				if failed := p.measure(r); failed != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
				}
			}
		}
		return errors.Join(err, ctx.Err(), r.publish(o, err == nil))
	})
}
