package owntime

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// begin starts a program for as long as the test, on one processor.
func begin(t *testing.T, program ...string) (pid int) {
	t.Helper()
	c := exec.Command(program[0], program[1:]...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for cpu := range len(may) * 64 {
		if may.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(c.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// stop stops a process, and returns when it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, unix.WUNTRACED, nil); err != nil || !isStopped(folder(pid)) {
		t.Fatal("it is not stopped", err)
	}
}

var spin, sleep = []string{"sh", "-c", "while :; do :; done"}, []string{"sleep", "1000"}

// TestProcesses: a process that sleeps had all time, one that computes at least what it computed, one that is stopped
// had none, and one that waits for a processor had the less the more others want it.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks at processes for a second")
	}
	root := New()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go root.Run(ctx)
	for name, c := range map[string]struct {
		program     []string
		stopped     bool
		others      int
		least, most float64 // part of this process's time that it had
	}{
		"sleeps":   {program: sleep, least: 0.9, most: 1.01},
		"computes": {program: spin, most: 1.01},
		"stopped":  {program: spin, stopped: true, most: 0.3},
		"waits":    {program: spin, others: 5, most: 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			pid := begin(t, c.program...)
			for range c.others {
				begin(t, spin...)
			}
			clock := root.Follow(pid)
			defer clock.Forget()
			if c.stopped {
				stop(t, pid)
			}
			defer clock.AfterFunc(time.Hour, func() {}).Stop()
			began, used := time.Now(), usedBy(pid)
			<-root.After(time.Second)
			whole, had := root.Since(began), clock.Since(began)
			used = usedBy(pid) - used
			t.Logf("of %v it had %v, and computed for %v", whole, had, used)
			if part := float64(had) / float64(whole); part < c.least || part > c.most || had < used-2*every {
				t.Errorf("it had %.2f of the time, want %v to %v, and the %v that it computed", part, c.least, c.most, used)
			}
		})
	}
}

// TestStoppedForEver: what is stopped is not forgiven for ever.
func TestStoppedForEver(t *testing.T) {
	pid := begin(t, sleep...)
	stop(t, pid)
	p, forgiven := process{pid: pid}, time.Duration(0)
	for range 100 {
		_, lost := p.look(time.Second, &machine{}, true)
		forgiven += lost
	}
	if forgiven != pauseMost {
		t.Errorf("%v of 100 s that it was stopped are forgiven, want %v", forgiven, pauseMost)
	}
}
