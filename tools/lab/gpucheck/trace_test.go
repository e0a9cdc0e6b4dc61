package main

import (
	"testing"
	"time"
)

func TestUsageBetween(t *testing.T) {
	const ms = time.Millisecond
	// Two lanes: the second execution begins while the first runs. Idle from 25 to 30, 45 to 47, and from 60 on.
	executions := []execution{
		{start: 0, end: 15 * ms, rows: 4},
		{start: 10 * ms, end: 25 * ms, rows: 8},
		{start: 30 * ms, end: 45 * ms, rows: 8},
		{start: 47 * ms, end: 60 * ms, rows: 2},
	}
	u := usageBetween(executions, 5*ms, 65*ms)
	if got := u.busy; got < 0.7999 || got > 0.8001 {
		t.Errorf("busy %v, want 48 of 60 ms", got)
	}
	if len(u.gaps) != 3 || u.gaps[0] != 2*ms || u.gaps[1] != 5*ms || u.gaps[2] != 5*ms {
		t.Errorf("gaps %v, want 2ms, 5ms and, at the end, 5ms", u.gaps)
	}
	if u.executions != 3 || u.batchRows() != 6 {
		t.Errorf("%d executions of %v rows, want the three that lie inside, of 6", u.executions, u.batchRows())
	}
	for part, want := range map[float64]time.Duration{0: 2 * ms, 0.4: 5 * ms, 1: 5 * ms} {
		if got := u.pause(part); got != want {
			t.Errorf("of %v of the batches the pause is %v, want %v", part, got, want)
		}
	}
	u = usage{executions: 100, gaps: []time.Duration{3 * ms, 4 * ms}} // 98 began while another ran
	for part, want := range map[float64]time.Duration{0.5: 0, 0.97: 0, 0.98: 3 * ms, 0.99: 4 * ms} {
		if got := u.pause(part); got != want {
			t.Errorf("of %v of the batches the pause is %v, want %v", part, got, want)
		}
	}
}
