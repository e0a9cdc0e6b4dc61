package worker_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestQuarantine: runs are made in a process of their own; one that ends it harms nobody, and the next goes well.
func TestQuarantine(t *testing.T) {
	p, log := newPool(t)
	o, other := open(t, p), open(t, p)
	alone, others := o, other
	alone.Session, others.Session = o.Quarantine, other.Quarantine
	for range 2 {
		for _, q := range []engine.Opened{alone, others, alone} {
			answers(t, q, 8, "a run")
		}
		if _, err := run(t.Context(), alone, segfaulting); engine.KindOf(err) != engine.Crashed ||
			engine.SignalOf(err) != "SIGSEGV" {
			t.Errorf("a crash: %v", err)
		}
		b := tensor.NewBatch(1, 1, o.Memory)
		b.Patience = 10 * time.Millisecond
		if _, err := runIn(t.Context(), b, alone, hanging); engine.KindOf(err) != engine.Crashed ||
			engine.SignalOf(err) != "" {
			t.Errorf("a run that hangs: %v", err)
		}
		b.Free()
	}
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	if err := alone.Session.Run(t.Context(), b); err != nil || b.Waited <= 0 {
		t.Errorf("a run for which a process was started: %v, it waited %v", err, b.Waited)
	}
	survives(t, o, log, 0)
}

// TestARunThatOutlastsItsTurn in quarantine holds up no other, and goes on for as long as its patience lasts.
func TestARunThatOutlastsItsTurn(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	o.Session = o.Quarantine
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		b := tensor.NewBatch(1, 1, o.Memory)
		defer b.Free()
		b.Patience, b.Turn = time.Hour, time.Millisecond
		_, err := runIn(ctx, b, o, hanging)
		ended <- err
	}()
	weftest.Until(t, "the run", func() bool {
		b := tensor.NewBatch(1, 1, o.Memory)
		defer b.Free()
		b.Turn = time.Millisecond
		got, err := runIn(ctx, b, o, 4)
		if err != nil || got[0] != 8 {
			t.Fatalf("behind a run that hangs: %v, %v", got, err)
		}
		// The worker, a spare process, the run that hangs, and the one that was made in its place.
		return len(weftest.Children(os.Getpid())) == 4
	})
	select {
	case err := <-ended:
		t.Errorf("it has ended: %v", err)
	default:
	}
	cancel()
	if err := <-ended; engine.KindOf(err) != engine.Terminated {
		t.Errorf("a run that hangs, and that nobody waits for: %v", err)
	}
}

// TestTheEndOfAQuarantine: with its worker the run in quarantine ends, also one that waits for its turn, with an error
// that says why. No process is left, and none is started for another try.
func TestTheEndOfAQuarantine(t *testing.T) {
	p, log := newPool(t)
	for i, c := range []struct {
		why string
		end func()
	}{
		{"fell off the bus", func() { p.Lose("cpu", errors.New("fell off the bus")) }},
		{"the server is stopping", p.Close},
	} {
		o := open(t, p)
		o.Session = o.Quarantine
		opened := 3 * (i + 1) // for the first time, in the worker, and in quarantine
		ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				_, err := run(ctx, o, hanging)
				errs <- err
			}()
		}
		weftest.Until(t, "the quarantine", func() bool { return len(log.Event("test_opened")) == opened })
		c.end()
		for range cap(errs) {
			if err := <-errs; err == nil || !strings.Contains(err.Error(), c.why) || ctx.Err() != nil {
				t.Errorf("a run in quarantine after %q: %v", c.why, err)
			}
		}
		cancel()
		if n := len(log.Event("test_opened")); n != opened {
			t.Errorf("after %q: the model was opened %d times, want %d", c.why, n, opened)
		}
	}
	if left := weftest.Children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestAKillIsNobodysFault: a run whose process is ended from outside is made again, and is not blamed, however often
// that happens.
func TestAKillIsNobodysFault(t *testing.T) {
	p, _ := newPool(t)
	kill := func() {
		for _, pid := range weftest.Children(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
		}
	}
	both := [2]*filed{openFiled(t, p, "cpu", model{}), openFiled(t, p, "cpu", model{})}
	for i := range 6 {
		f := both[i%2] // in quarantine there is the other one
		f.Session = f.Quarantine
		f.lock(t)
		ended := make(chan error, 1)
		go func() {
			_, err := run(t.Context(), f.Opened, 4)
			ended <- err
		}()
		weftest.Until(t, "processes of the worker and the quarantine, and a spare one", func() bool {
			return len(weftest.Children(os.Getpid())) >= 3
		})
		kill()
		f.unlock(t)
		if err := <-ended; err != nil {
			t.Errorf("kill %d: %v", i, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := run(t.Context(), both[0].Opened, hanging)
		ended <- err
	}()
	weftest.Until(t, "the end of a run that is killed again and again", func() bool {
		kill()
		select {
		case err := <-ended:
			if err == nil || engine.KindOf(err) != engine.Terminated {
				t.Errorf("got %v", err)
			}
			return true
		default:
			return false
		}
	})
}
