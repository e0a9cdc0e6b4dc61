package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// strikeCommand attacks a server, and prints a tally.
type strikeCommand struct {
	Name        string        `arg:""`
	Target      string        `required:""`
	Connections int           `required:""`
	Rate        float64       // 0: the attack's
	Span        time.Duration `required:""`
	Seed        uint64        `required:""`
}

// Run attacks until the span is over or ctx ends.
func (c *strikeCommand) Run(ctx context.Context, o harness.Output) error {
	t, err := c.strike(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(o.Out).Encode(t)
}

// strike returns what it did. The error says that it may not or cannot attack that.
func (c *strikeCommand) strike(ctx context.Context) (*tally, error) {
	if err := onlyLoopback(c.Target); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Span)
	defer cancel()
	t, began := &tally{}, time.Now()
	if c.Name == controlName {
		if err := c.control(ctx, t); err != nil {
			return nil, err
		}
	} else {
		a := find(c.Name)
		if a == nil {
			return nil, fmt.Errorf("%s: there is no such attack; expected one of %q", c.Name, names())
		}
		c.connect(ctx, a, t)
	}
	t.Done, t.Seconds = t.done.Load(), time.Since(began).Seconds()
	return t, nil
}

// onlyLoopback refuses to attack another machine.
func onlyLoopback(target string) error {
	if at, err := netip.ParseAddrPort(target); err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--target %s: only servers on this machine are attacked; expected an address such as "+
			"127.0.0.1:9000", target)
	}
	return nil
}

// connect keeps the connections of an attack until ctx ends.
func (c *strikeCommand) connect(ctx context.Context, a *attack, t *tally) {
	const perSecond = 4000 // new connections, so that the server's backlog holds them
	n := c.Connections
	if a.connections > 0 {
		n = a.connections
	}
	rate := a.rate
	if c.Rate > 0 {
		rate = c.Rate
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for pause := time.Duration(i) * time.Second / perSecond; ; pause = 100 * time.Millisecond {
				select {
				case <-ctx.Done():
					return
				case <-time.After(pause):
				}
				c.hold(ctx, a, i, rate/float64(n), t)
			}
		})
	}
	all.Wait()
}

// hold attacks over one connection until it ends.
func (c *strikeCommand) hold(ctx context.Context, a *attack, number int, rate float64, t *tally) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Target)
	if err != nil {
		if ctx.Err() == nil {
			t.count(&t.Failed)
		}
		return
	}
	t.count(&t.Dialed)
	l := newLink(ctx, conn, number, c.Seed, t)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if a.deaf(number) {
		defer l.lastWords()
	} else {
		go l.read()
		defer func() { _ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); <-l.gone; _ = conn.Close() }()
	}
	err = nil
	if !a.bare {
		err = l.hello(a.window)
	}
	var do operation
	if err == nil {
		do, err = a.begin(l)
	}
	if err == nil {
		err = l.repeat(ctx, rate, a.most, do)
	}
	if ctx.Err() == nil && err != nil && !errors.Is(err, context.Canceled) {
		t.count(&t.Ended)
		return
	}
	t.count(&t.Open)
}
