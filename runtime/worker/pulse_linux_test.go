package worker_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/worker"
)

// pidOf returns the process in which a model runs.
func pidOf(t *testing.T, o engine.Opened) int {
	t.Helper()
	pid, err := run(t.Context(), o, telling)
	if err != nil {
		t.Fatal(err)
	}
	return int(pid[0])
}

// TestAProcessThatDoesNotRead: a process that is stopped holds up nobody for long who has something to say to it.
func TestAProcessThatDoesNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two seconds")
	}
	p, log := newPoolOf(t, worker.Config{}.Hasten())
	o := open(t, p)
	pid := pidOf(t, o)
	long := model{Load: strings.Repeat("more than a socket holds ", 1<<16)}
	opened := make(chan error, 1)
	go func() {
		_, err := p.Open(t.Context(), onCPU, long, nil, func(context.Context, engine.Opened) error {
			return unix.Kill(pid, unix.SIGSTOP)
		})
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			t.Errorf("opening a model there: %v", err)
		}
	case <-time.After(weftest.Patience):
		_ = unix.Kill(pid, unix.SIGKILL)
		t.Fatal("opening a model there does not end")
	}
	answers(t, o, 8, "another model")
	died := log.Event("worker_died")
	if len(died) != 1 {
		t.Fatalf("log: %v", log.Lines("worker"))
	}
	switch cause := weftest.Attr(died[0], "cause").String(); { // a question whether it lives may have come before
	case strings.Contains(cause, "did not take a message within 1s"), strings.Contains(cause, "did not answer within 1s"):
	default:
		t.Errorf("it died because %s", cause)
	}
}

// TestAStoppedSpare: a process that is stopped while it is the spare one takes nobody's place for long.
func TestAStoppedSpare(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two seconds")
	}
	p, log := newPoolOf(t, worker.Config{}.Hasten())
	p.SetTriedIdle(time.Millisecond)
	o := open(t, p)
	pid := pidOf(t, o)
	weftest.Until(t, "a spare process, and no other", func() bool {
		return p.HasSpare() && len(weftest.Children(os.Getpid())) == 2
	})
	spare := slices.DeleteFunc(weftest.Children(os.Getpid()), func(child int) bool { return child == pid })
	if err := errors.Join(unix.Kill(spare[0], unix.SIGSTOP), unix.Kill(pid, unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	weftest.Until(t, "an answer", func() bool {
		got, err := run(t.Context(), o, 4)
		return err == nil && slices.Equal(got, []float32{8})
	})
	if died := log.Event("worker_died"); len(died) != 2 ||
		!strings.Contains(weftest.Attr(died[1], "cause").String(), "did not answer within 1s") {
		t.Errorf("log: %v", log.Lines("worker"))
	}
}
