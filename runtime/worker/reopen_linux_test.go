package worker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// filed is a model whose opening obeys its file.
type filed struct {
	engine.Opened
	file *os.File // to write to it, and to lock it
}

func openFiled(t *testing.T, p *worker.Pool, device string, m model) *filed {
	path := filepath.Join(t.TempDir(), "model")
	f := &filed{}
	var err error
	if f.file, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.file.Close() })
	f.write(t, 0)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f.Opened, err = p.Open(t.Context(), on(device), m, file, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *filed) write(t *testing.T, does byte) {
	content := append(binary.LittleEndian.AppendUint32(nil, math.Float32bits(3)), does)
	if _, err := f.file.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
}

// lock has openings wait until unlock.
func (f *filed) lock(t *testing.T)   { f.flock(t, unix.LOCK_EX) }
func (f *filed) unlock(t *testing.T) { f.flock(t, unix.LOCK_UN) }

func (f *filed) flock(t *testing.T, how int) {
	if err := unix.Flock(int(f.file.Fd()), how); err != nil {
		t.Fatal(err)
	}
}

// TestReopening: a model that takes long to be opened again holds up nobody else's runs.
func TestReopening(t *testing.T) {
	p, _ := newPool(t)
	slow, o := openFiled(t, p, "cpu", model{}), open(t, p)
	slow.lock(t)
	for range 2 {
		crashes(t, o)
		answers(t, o, 8, "beside a model that is still being opened")
	}
	b := tensor.NewBatch(1, 1, slow.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	err := slow.Session.Run(t.Context(), b)
	if _, is := errors.AsType[*engine.ReopeningError](err); !is || engine.KindOf(err) != engine.Terminated {
		t.Errorf("a run of the model that is still being opened: %v", err)
	}
	slow.unlock(t)
	answers(t, slow.Opened, 12, "once it was opened")
	slow.lock(t)
	crashes(t, o)
	if err := slow.Session.Close(); err != nil {
		t.Error(err)
	}
	answers(t, o, 8, "once the other was closed")
	slow.unlock(t)
}

// TestOpeningsThatFail: a model that cannot be opened in the next process, or not in time, is tried again there. It is
// said to be down meanwhile, and can be closed.
func TestOpeningsThatFail(t *testing.T) {
	p, log := newPool(t)
	f, killer := openFiled(t, p, "cpu", model{}), open(t, p)
	p.SetOpenPatience(500 * time.Millisecond)
	fails := func(why string) {
		t.Helper()
		crashes(t, killer)
		if _, err := run(t.Context(), f.Opened, 4); engine.KindOf(err) != engine.NotOpen ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want that %s", err, why)
		}
		if f.Session.Stats().Process.Down.IsZero() {
			t.Error("it is not said to be down")
		}
	}
	resumes := func() {
		t.Helper()
		weftest.Until(t, "another attempt", func() bool {
			got, err := run(t.Context(), f.Opened, 4)
			return err == nil && got[0] == 12
		})
		if down := f.Session.Stats().Process.Down; !down.IsZero() {
			t.Errorf("it is said to be down since %v", down)
		}
	}
	f.write(t, unlucky)
	fails("cannot be opened again: no memory for weights")
	f.write(t, 0)
	resumes()
	f.lock(t)
	fails("did not open the model within 500ms")
	b := tensor.NewBatch(1, 1, f.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	weftest.Until(t, "another attempt, beside the one that goes on", func() bool {
		_, is := errors.AsType[*engine.ReopeningError](f.Session.Run(t.Context(), b))
		return is
	})
	f.unlock(t)
	resumes()
	for range 20 {
		if _, err := run(t.Context(), f.Opened, 4); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	f.write(t, unlucky)
	fails("no memory for weights")
	if err := f.Session.Close(); err != nil {
		t.Error(err)
	}
	survives(t, killer, log, 3)
}

// TestARestartThatTakesLong: a run does not wait for it with what it holds, and says when another try is worth while.
func TestARestartThatTakesLong(t *testing.T) {
	var starts sync.Mutex // held: none begins
	log := &weftest.Log{}
	p := worker.NewPool(worker.Config{Command: serves, Log: slog.New(log), Library: func() (string, error) {
		starts.Lock()
		defer starts.Unlock()
		return "", nil
	}})
	t.Cleanup(p.Close)
	o := open(t, p)
	weftest.Until(t, "a spare process", func() bool { return len(weftest.Children(os.Getpid())) == 2 })
	starts.Lock()
	weftest.Until(t, "no process", func() bool {
		all := weftest.Children(os.Getpid())
		for _, pid := range all {
			_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
		}
		return len(all) == 0
	})
	// Until the worker knows of the death, a run begins in the dead process, and ends with it.
	weftest.Until(t, "a worker that knows", func() bool { return len(log.Lines("worker_died")) > 0 })
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	err := o.Session.Run(t.Context(), b)
	again, is := errors.AsType[*engine.ReopeningError](err)
	if !is || engine.KindOf(err) != engine.Terminated {
		starts.Unlock()
		t.Fatalf("a run without a process: %v", err)
	}
	select {
	case <-again.Done:
		t.Error("another try is said to be worth while")
	default:
	}
	starts.Unlock()
	<-again.Done
	answers(t, o, 8, "once there is a process")
}

// TestOpeningBesideAKiller: a model is not opened for ever where another one ends each process.
func TestOpeningBesideAKiller(t *testing.T) {
	p, log := newPool(t)
	killer := open(t, p)
	slow := openFiled(t, p, "cpu", model{})
	file, err := os.Open(slow.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	opened := make(chan error, 1)
	go func() {
		_, err := p.Open(t.Context(), onCPU, model{}, file, func(context.Context, engine.Opened) error {
			slow.lock(t)
			return nil
		})
		opened <- err
	}()
	weftest.Until(t, "the end of the opening", func() bool {
		if deaths := len(log.Event("worker_died")); deaths > 50 {
			t.Fatalf("it goes on after %d deaths", deaths)
		}
		_, _ = run(t.Context(), killer, segfaulting)
		select {
		case err = <-opened:
			return true
		default:
			return false
		}
	})
	if err == nil || engine.KindOf(err) != engine.Terminated || !strings.Contains(err.Error(), "cpu ended 5 times") ||
		!strings.Contains(err.Error(), "SIGSEGV") {
		t.Errorf("got %v", err)
	}
	slow.unlock(t)
	answers(t, slow.Opened, 12, "another model")
}

// TestAnOpeningThatKills: a model that ends the process in which it is opened again is found by itself, and left out.
func TestAnOpeningThatKills(t *testing.T) {
	p, log := newPool(t)
	killer, o := openFiled(t, p, "cpu", model{}), open(t, p)
	killer.write(t, deadly)
	crashes(t, o)
	for {
		got, err := run(t.Context(), o, 4)
		if engine.KindOf(err) == engine.Crashed && err != nil {
			continue
		}
		if err != nil || !slices.Equal(got, []float32{8}) {
			t.Errorf("beside a model that cannot be opened: %v, %v", got, err)
		}
		_, err = run(t.Context(), killer.Opened, 4)
		if engine.KindOf(err) == engine.NotOpen && strings.Contains(err.Error(), "cannot be opened again") {
			break
		}
		if engine.KindOf(err) != engine.Crashed { // as where the process died while the run waited for it
			t.Fatalf("a run of the model that cannot be opened: %v", err)
		}
	}
	deaths := len(log.Event("worker_died"))
	for range 20 {
		answers(t, o, 8, "afterwards")
	}
	if now := len(log.Event("worker_died")); now != deaths || now > 2 {
		t.Errorf("%d deaths, %d afterwards: %v", deaths, now, log.Lines(""))
	}
}

// TestAnOpeningThatHangs: while a model hangs when it is opened again, others are opened next to it that fit, and
// sessions that would not fit any more later are not.
func TestAnOpeningThatHangs(t *testing.T) {
	p, _ := newPoolWith(t, testPolicy(t), bound)
	hangs := openFiled(t, p, "cpu", model{Needs: bound * 72 / 100})
	var large []engine.Opened // the second one fits next to the one that hangs, but not before the first one
	for _, m := range []model{{Takes: bound * 30 / 100, Needs: bound * 56 / 100}, {Takes: bound * 15 / 100}} {
		o := openModel(t, p, onCPU, m)
		large = append(large, o)
	}
	small := open(t, p)
	hangs.lock(t)
	crashes(t, small)
	b := tensor.NewBatch(1, 1, small.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	weftest.Until(t, "a run of the small model", func() bool {
		err := small.Session.Run(t.Context(), b)
		if _, is := errors.AsType[*engine.ReopeningError](err); err != nil && !is {
			t.Fatal(err)
		}
		return err == nil
	})
	weftest.Until(t, "the memory of the one that hangs", func() bool {
		used, _ := p.Memory()
		return used["cpu"] > bound*70/100<<20
	})
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	o, err := p.Open(ctx, onCPU, model{}, nil, nil)
	if err != nil {
		t.Fatalf("another small model: %v", err)
	}
	for _, o := range append(large, hangs.Opened) {
		err := o.Session.Run(t.Context(), b)
		if _, is := errors.AsType[*engine.ReopeningError](err); !is {
			t.Errorf("a run of a large model: %v", err)
		}
	}
	hangs.unlock(t)
	for i, o := range append(large, o, hangs.Opened) {
		if _, err := run(t.Context(), o, 4); err != nil {
			t.Errorf("model %d, in the end: %v", i, err)
		}
	}
}
