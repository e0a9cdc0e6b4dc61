package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// good is a round of a server that withstands.
func good() round {
	p := func(ms float64) *phase {
		return &phase{fared: fared{Ms: []float64{1, ms}, Sent: 2}, peak: use{server: 150, workers: 50}}
	}
	return round{
		rest: use{server: 100, workers: 50}, after: use{server: 120, workers: 50},
		idle: p(1), attack: p(3), control: p(2),
	}
}

// TestJudge: each verdict fails where it must, and one bad round of three is no verdict, unless requests were lost.
func TestJudge(t *testing.T) {
	spoil := map[string]func(*round){
		"memory":       func(r *round) { r.attack.peak.server = 100 + slack + 256 + 1 },
		"p99":          func(r *round) { r.attack.Ms = []float64{1, 4.1} },
		"lost":         func(r *round) { r.attack.Lost = 1 },
		"busy after":   func(r *round) { r.afterCPU = mostAtRest },
		"memory after": func(r *round) { r.after.workers = 50 + slack + 1 - 20 },
		"died":         func(r *round) { r.died = true },
	}
	fails := func(rounds ...round) string {
		v := judge(&attacks[0], rounds, 256)
		return strings.Join(v.fails(), ", ")
	}
	if got := fails(good(), good(), good()); got != "" {
		t.Errorf("a good server fails: %s", got)
	}
	for name, worsen := range spoil {
		bad := func() round { r := good(); worsen(&r); return r }
		if got := fails(bad(), bad(), good()); got != name {
			t.Errorf("%s: it fails %q", name, got)
		}
		want := ""
		if name == "lost" || name == "died" {
			want = name
		}
		if got := fails(good(), bad(), good()); got != want {
			t.Errorf("%s in one round of three: it fails %q, want %q", name, got, want)
		}
	}
	unanswered := good()
	unanswered.attack.Ms = nil
	if got := fails(unanswered); got != "p99" {
		t.Errorf("nobody was answered: it fails %q", got)
	}
}

// TestAsBusy: the control asks for what takes as much of a processor, and for more than there is beside an attack that
// takes all.
func TestAsBusy(t *testing.T) {
	b := &bout{cost: 1e-4}
	idle := &phase{cpu: 0.05}
	if rate := b.asBusy(&phase{cpu: 0.25}, idle); rate < 1999 || rate > 2001 {
		t.Errorf("a fifth of a processor is %.0f requests/s of 100 us", rate)
	}
	if rate := b.asBusy(&phase{cpu: 0.99}, idle); rate < 20_000 {
		t.Errorf("a whole processor is %.0f requests/s", rate)
	}
	if rate := b.asBusy(&phase{cpu: 0.01}, idle); rate != 1 {
		t.Errorf("nothing is %.0f requests/s", rate)
	}
}

// TestCredit: who wants more than there is waits for it, and no longer than the connection or the attack lasts.
func TestCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, never, ended := newCredit(), make(chan struct{}), make(chan struct{})
		close(ended)
		if !c.take(1<<16-1, never, never) || c.take(1, ended, never) || c.take(1, never, ended) {
			t.Error("64 KB less a byte can be had at once, and then nothing")
		}
		time.AfterFunc(time.Second, func() { c.add(5) })
		if !c.take(5, never, never) || c.take(1, ended, never) {
			t.Error("5 bytes more can be had, and then nothing")
		}
	})
}
