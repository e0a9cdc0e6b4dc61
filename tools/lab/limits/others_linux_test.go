package main

import "testing"

func TestOthers(t *testing.T) {
	before := usage{all: 1000, busy: 500, ours: 100}
	for after, want := range map[usage]float64{
		{all: 1200, busy: 650, ours: 220}: 0.15,
		{all: 1200, busy: 620, ours: 220}: 0,
		{all: 1200, busy: 619, ours: 221}: 0, // they are not read at the same moment
		before:                            0,
	} {
		if got := others(before, after); got != want {
			t.Errorf("from %+v to %+v: %g, want %g", before, after, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	if u := usageNow(); u.all <= u.busy || u.busy < u.ours {
		t.Errorf("%+v: expected that the machine was idle at some time, and used by others", u)
	}
}
