package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

// TestMain plays a part where it is told to, as this program's children are.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"strike", "honest"}, os.Args[1]) {
		main()
		return
	}
	harnesstest.Main(m)
}

// TestServerSurvives short attacks: it answers all honest requests, and its memory stays bounded. How long it takes is
// for a run of the program to say.
func TestServerSurvives(t *testing.T) {
	weft := harnesstest.Weft(t)
	cpus, err := affinity.Own()
	if err != nil {
		t.Skip(err)
	}
	c := runCommand{Weft: weft, Connections: 16, Budget: 256, Most: 2048, Seed: 1}
	b := &bout{runCommand: &c, clients: cpus}
	if b.server, err = serve(t.Context(), weft, t.TempDir(), cpus); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"rapid-reset", "settings", "reset-requests", "empty-frames", "header-bombs"} {
		const rate, span = 5000, time.Second
		rest := useOf(b.server.PID()).memory()
		p, err := b.measure(t.Context(), name, rate, span)
		if err != nil || b.server.Died() {
			t.Fatalf("%s: %v, died: %v", name, err, b.server.Died())
		}
		if p.Done == 0 || p.Failed > 0 {
			t.Errorf("%s: the attacker did %d operations, and %d of its connections failed", name, p.Done, p.Failed)
		}
		if p.Lost > 0 || p.Sent == 0 {
			t.Errorf("%s: %d of %d honest requests were lost: %q", name, p.Lost, p.Sent, p.Errors)
		}
		if grew := p.peak.memory() - rest; p.peak.server == 0 || grew > slack+float64(c.Budget) {
			t.Errorf("%s: the server took %.0f MiB more, at most %.0f", name, grew, p.peak.memory())
		}
	}
}

// TestOnlyLoopback: no other machine is ever attacked.
func TestOnlyLoopback(t *testing.T) {
	for _, target := range []string{
		"192.0.2.1:9000", "0.0.0.0:9000", "[::]:9000", "[2001:db8::1]:9000", "localhost:9000", "example.com:9000", "127.0.0.1", "",
	} {
		c := strikeCommand{Name: "ping", Target: target, Connections: 1, Span: time.Second}
		if _, err := c.strike(context.Background()); err == nil {
			t.Errorf("%q may be attacked", target)
		}
	}
	for _, target := range []string{"127.0.0.1:9000", "127.9.9.9:1", "[::1]:9000"} {
		if err := onlyLoopback(target); err != nil {
			t.Error(err)
		}
	}
}

// TestFlags: what is no attack or no number is refused.
func TestFlags(t *testing.T) {
	for _, c := range []runCommand{
		{Connections: 1, Most: 1, Only: []string{"nothing"}},
		{Connections: 0, Most: 1},
		{Connections: 5000, Most: 1},
		{Connections: 1, Most: 1, Rounds: -1},
		{Connections: 1, Most: 1, Rate: -1},
		{Connections: 1, Most: 0},
		{Connections: 1, Most: 1, Budget: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	c := runCommand{Connections: 64, Most: 1, Only: []string{"ping"}}
	if err := c.Validate(); err != nil || len(c.chosen()) != 1 {
		t.Errorf("%v, %d attacks", err, len(c.chosen()))
	}
}
