package worker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
	"github.com/weftserve/weft/runtime/worker/sandbox"
)

func newPool(t testing.TB) (*worker.Pool, *weftest.Log) { return newPoolWith(t, testPolicy(t), 0) }

// newPoolWith returns a pool whose processes may take so many MiB of memory.
func newPoolWith(t testing.TB, box *sandbox.Policy, bound int64) (*worker.Pool, *weftest.Log) {
	t.Helper()
	return newPoolOf(t, worker.Config{Sandbox: box, Memory: bound << 20})
}

func newPoolOf(t testing.TB, c worker.Config) (*worker.Pool, *weftest.Log) {
	log := &weftest.Log{}
	c.Command, c.Library, c.Log = serves, func() (string, error) { return "", nil }, slog.New(log)
	p := worker.NewPool(c)
	t.Cleanup(p.Close)
	return p, log
}

func open(t testing.TB, p *worker.Pool) engine.Opened {
	t.Helper()
	return openModel(t, p, onCPU, model{})
}

func openModel(t testing.TB, p *worker.Pool, where worker.Place, m model) engine.Opened {
	t.Helper()
	o, err := p.Open(t.Context(), where, m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// answers fails the test unless a session answers 4 with want.
func answers(t *testing.T, o engine.Opened, want float32, what string, args ...any) {
	t.Helper()
	if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{want}) {
		t.Errorf(what+": %v, %v", append(args, got, err)...)
	}
}

// survives fails the test unless a session answers, after so many deaths of processes.
func survives(t *testing.T, o engine.Opened, log *weftest.Log, deaths int) {
	t.Helper()
	answers(t, o, 8, "another model")
	if n := len(log.Event("worker_died")); n != deaths {
		t.Errorf("%d deaths, want %d: %v", n, deaths, log.Lines(""))
	}
}

// crashes has a session end its process.
func crashes(t *testing.T, o engine.Opened) {
	t.Helper()
	if _, err := run(t.Context(), o, segfaulting); engine.KindOf(err) != engine.Crashed {
		t.Errorf("a crash: %v", err)
	}
}

// run runs values and returns what came.
func run(ctx context.Context, o engine.Opened, values ...float32) ([]float32, error) {
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	return runIn(ctx, b, o, values...)
}

func runIn(ctx context.Context, b *tensor.Batch, o engine.Opened, values ...float32) ([]float32, error) {
	in := b.Input(0, tensor.Float32, tensor.Shape{int64(len(values))}, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(v))
	}
	if err := runOpen(ctx, b, o); err != nil {
		return nil, err
	}
	if b.DeviceTime != time.Duration(len(values)) {
		return nil, errors.New("another device time than the engine's")
	}
	return floatsOf(b.Outputs[0].Data), nil
}

// runOpen runs a session once it is open.
func runOpen(ctx context.Context, b *tensor.Batch, o engine.Opened) error {
	for {
		err := o.Session.Run(ctx, b)
		reopening, is := errors.AsType[*engine.ReopeningError](err)
		if !is {
			return err
		}
		<-reopening.Done
	}
}

func TestRunsInAnotherProcess(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	if got := o.Session.Signature(); len(got.Inputs) != 1 || got.Inputs[0].Name != "x" ||
		!slices.Equal(o.Notes, []string{"a note"}) || o.Device != "cpu" || o.Provider != "test" {
		t.Errorf("opened as %+v with %+v", o, got)
	}
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	if got, err := runIn(t.Context(), b, o, 4, 5); err != nil || !slices.Equal(got, []float32{8, 10}) ||
		b.Process <= 0 || b.Process == os.Getpid() {
		t.Errorf("in process %d: %v, %v", b.Process, got, err)
	}
	if s := o.Session.Stats(); s.Graphs.Eager != 1 {
		t.Errorf("statistics of a run: %+v", s)
	}
	if _, err := runIn(t.Context(), b, o, failing); err == nil || err.Error() != "the model fails" ||
		engine.KindOf(err) != engine.ModelFailed {
		t.Errorf("a failing run: %v", err)
	}
	if _, err := runIn(t.Context(), b, o, panicking); err == nil || !strings.Contains(err.Error(), "of the engine") {
		t.Errorf("a panic: %v", err)
	}
	if got, err := runIn(t.Context(), b, o, append([]float32{large}, make([]float32, 999)...)...); err != nil ||
		len(got) != 100_000 {
		t.Errorf("a large answer: %d values, %v", len(got), err)
	}
	for _, b.Copied = range []bool{true, false} {
		if got, err := runIn(t.Context(), b, o, copying); err != nil || (got[0] == 2) != b.Copied {
			t.Errorf("a run whose answer is to be copied, %t: %v, %v", b.Copied, got, err)
		}
	}
	if err := o.Session.Close(); err != nil {
		t.Error(err)
	}
	if len(log.Event("test_opened")) != 2 {
		t.Errorf("records of the worker: %v", log.Lines(""))
	}
}

// TestRunsSideBySide: runs of a session go on at the same time where the engine lets them, each with memory of its own.
func TestRunsSideBySide(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			value := float32(i)
			if got, err := run(ctx, o, meeting, value); err != nil || !slices.Equal(got, []float32{2 * meeting, 2 * value}) {
				t.Errorf("run %d: %v, %v", i, got, err)
			}
		})
	}
	both.Wait()
	if err := o.Session.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeviceTime: a worker cannot claim that a run took more of its device than the time that has passed, or less than
// none.
func TestDeviceTime(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	for _, hours := range []float32{-1, 1} {
		in := b.Input(0, tensor.Float32, tensor.Shape{2}, 8)
		binary.LittleEndian.PutUint32(in, math.Float32bits(boasting))
		binary.LittleEndian.PutUint32(in[4:], math.Float32bits(hours))
		began := time.Now()
		if err := runOpen(t.Context(), b, o); err != nil || b.DeviceTime < 0 || b.DeviceTime > time.Since(began) {
			t.Errorf("%v hours were claimed, and %v believed; %v", hours, b.DeviceTime, err)
		}
	}
}

// TestStringsThatChange: a worker that changes the lengths of its strings after the answer, in memory that it shares
// with the server, changes nothing there.
func TestStringsThatChange(t *testing.T) {
	p, _ := newPool(t)
	o := openModel(t, p, onCPU, model{Opens: "spells"})
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	in := b.Input(0, tensor.Float32, tensor.Shape{1}, 4)
	binary.LittleEndian.PutUint32(in, math.Float32bits(flipping))
	if err := runOpen(t.Context(), b, o); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(in, 0)
	weftest.Until(t, "another length", func() bool { return binary.LittleEndian.Uint32(b.Room(0)) == math.MaxUint32 })
	if err := b.Outputs[0].Check(); err != nil {
		t.Errorf("after the answer was checked: %v", err)
	}
}

// TestDeaths: each kind of death fails the run that caused it, and is told; the next run is answered by another
// process.
func TestDeaths(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	for value, want := range map[float32]string{segfaulting: "SIGSEGV", exiting: "exit status 3"} {
		_, err := run(t.Context(), o, value)
		if engine.KindOf(err) != engine.Crashed || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a crash by %s", err, want)
		}
		answers(t, o, 8, "after %s", want)
	}
	died := log.Event("worker_died")
	if len(died) != 2 || weftest.Attr(died[0], "worker").String() != "cpu" {
		t.Errorf("log: %v", log.Lines(""))
	}
	for _, r := range died {
		if cause := weftest.Attr(r, "cause").String(); strings.Count(cause, "SIGSEGV") > 1 {
			t.Errorf("the cause is %q", cause)
		}
	}
	weftest.Until(t, "a process again", func() bool { return len(log.Event("worker_restarted")) > 0 })
	for _, r := range log.Event("worker_restarted") {
		if weftest.Attr(r, "models").Int64() != 1 || weftest.Attr(r, "failed").Int64() != 0 {
			t.Errorf("restarted: %v", r)
		}
	}
	p.Close()
	for _, r := range log.Event("worker_output") {
		t.Errorf("what is in the cause of the death is told again: %v", r)
	}
	if restarted := len(log.Event("worker_restarted")); restarted > 2 {
		t.Errorf("restarted %d times for 2 deaths", restarted)
	}
}

// TestStanding: a session counts the deaths of its process since it was opened, and says how the latest was. While the
// next process is started it is down, and somebody is told of both.
func TestStanding(t *testing.T) {
	var changes atomic.Int32
	p, _ := newPoolOf(t, worker.Config{Changed: func() { changes.Add(1) }})
	o := open(t, p)
	if s := o.Session.Stats().Process; s != (engine.Process{}) {
		t.Errorf("a process that never died: %+v", s)
	}
	weftest.Until(t, "the first process", func() bool { return changes.Load() == 1 })
	begin := time.Now()
	crashes(t, o)
	if s := o.Session.Stats().Process; s.Down.IsZero() && s.Deaths == 0 {
		t.Errorf("its process died, and it neither is down nor counts that: %+v", s)
	}
	if _, err := run(t.Context(), o, 4); err != nil {
		t.Error(err)
	}
	s := o.Session.Stats().Process
	if s.Deaths != 1 || s.Last.Before(begin) || !strings.Contains(s.Cause, "SIGSEGV") || !s.Down.IsZero() {
		t.Errorf("a process that died and was started again: %+v", s)
	}
	weftest.Until(t, "the death, the next process, and the session there", func() bool { return changes.Load() == 4 })
	later := open(t, p)
	if s := later.Session.Stats().Process; s != (engine.Process{}) {
		t.Errorf("a session that was opened after the death: %+v", s)
	}
}

// TestStops: a run that is told to stop does so; the process of one that does not is ended, and the next run goes well.
// It is told to by its context, which blames nobody, or, once it takes too long, by its patience.
func TestStops(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	quarantined := o
	quarantined.Session = o.Quarantine
	for _, value := range []float32{obedient, hanging} {
		for _, where := range []engine.Opened{o, quarantined} {
			if _, err := run(t.Context(), where, 4); err != nil { // the process is there
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if _, err := run(ctx, where, value); engine.KindOf(err) != engine.Terminated ||
				!errors.Is(err, context.DeadlineExceeded) && value == hanging {
				t.Errorf("value %v: %v", value, err)
			}
			cancel()
		}
		b := tensor.NewBatch(1, 1, o.Memory)
		b.Patience = 10 * time.Millisecond
		if _, err := runIn(t.Context(), b, o, value); engine.KindOf(err) != engine.Crashed ||
			!strings.Contains(err.Error(), "did not end within 10ms") {
			t.Errorf("value %v: %v, want an overrun", value, err)
		}
		b.Free()
		answers(t, o, 8, "after %v", value)
	}
}

// TestInterrupt: runs are stopped before their patience is over, if somebody says so; those in quarantine are not,
// because only a run that has had all of it is proven to hang.
func TestInterrupt(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	quarantined := o
	quarantined.Session = o.Quarantine
	const whole = 300 * time.Millisecond
	for where, patience := range map[*engine.Opened]time.Duration{&o: time.Hour, &quarantined: whole} {
		for _, value := range []float32{obedient, hanging} {
			ended := make(chan error, 1)
			go func() {
				b := tensor.NewBatch(1, 1, o.Memory)
				defer b.Free()
				b.Patience = patience
				_, err := runIn(context.Background(), b, *where, value)
				ended <- err
			}()
			var err error
			weftest.Until(t, "the end of the run", func() bool {
				o.Interrupt() // it may not have begun
				select {
				case err = <-ended:
					return true
				default:
					return false
				}
			})
			if engine.KindOf(err) != engine.Crashed || !strings.Contains(err.Error(), "did not end within") ||
				strings.Contains(err.Error(), patience.String()) != (patience == whole) {
				t.Errorf("value %v with a patience of %v: %v", value, patience, err)
			}
		}
	}
	answers(t, o, 8, "afterwards")
}

// TestOpening: a model that cannot be opened, or ends the process while it is opened, harms no other.
func TestOpening(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	_, err := p.Open(t.Context(), onCPU, model{Opens: "fails"}, nil, nil)
	if engine.KindOf(err) != engine.OutOfMemory {
		t.Errorf("a model that cannot be opened: %v", err)
	}
	if _, err := p.Open(t.Context(), onCPU, model{Opens: "dies"}, nil, nil); engine.KindOf(err) != engine.Crashed ||
		!strings.Contains(err.Error(), "SIGSEGV") {
		t.Errorf("a model that crashes when it is opened: %v", err)
	}
	for opens, want := range map[string]string{
		"misleads": `input "misleading" has 1 dimensions with 2 names`, "rambles": "shorter names",
	} {
		if _, err := p.Open(t.Context(), onCPU, model{Opens: opens}, nil, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("a model that %s: %.300v", opens, err)
		}
	}
	survives(t, o, log, 0)
}

// TestManyDeaths: callers of many sessions go on while their process dies again and again.
func TestManyDeaths(t *testing.T) {
	p, _ := newPool(t)
	var callers sync.WaitGroup
	killer := open(t, p)
	end := make(chan struct{})
	for range 4 {
		o := open(t, p)
		callers.Go(func() {
			b := tensor.NewBatch(1, 1, o.Memory)
			defer b.Free()
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				got, err := runIn(t.Context(), b, o, float32(i))
				if engine.KindOf(err) == engine.Crashed && err != nil {
					continue
				}
				if err != nil || got[0] != float32(2*i) {
					t.Errorf("run %d: %v, %v", i, got, err)
				}
			}
		})
	}
	for range 10 {
		crashes(t, killer)
	}
	close(end)
	callers.Wait()
}

// TestClosingBesideAStartThatHangs: a process that says nothing does not hold up the end, nor an opening.
func TestClosingBesideAStartThatHangs(t *testing.T) {
	p := worker.NewPool(worker.Config{
		Command: silent, Library: func() (string, error) { return "", nil }, Log: slog.New(slog.DiscardHandler),
	})
	opened, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := p.Open(t.Context(), onCPU, model{}, nil, nil)
		opened <- err
	}()
	weftest.Until(t, "processes that are started", func() bool { return len(weftest.Children(os.Getpid())) == 2 })
	go func() {
		p.Close()
		close(closed)
	}()
	for range 2 {
		select {
		case err := <-opened:
			if engine.KindOf(err) != engine.Terminated {
				t.Errorf("the opening ended with %v", err)
			}
		case <-closed:
			closed = nil
		case <-time.After(weftest.Patience):
			t.Fatal("it waits for processes that say nothing")
		}
	}
}

// TestClosingBesideOpenings: models that are being opened, for the first time and in quarantine, do not hold up the
// end, after which no process is left.
func TestClosingBesideOpenings(t *testing.T) {
	p, _ := newPool(t)
	slow := openFiled(t, p, "cpu", model{})
	again, err := os.Open(slow.file.Name()) // that of the test has the lock
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	slow.lock(t)
	ended, closed := make(chan error, 2), make(chan struct{})
	go func() {
		_, err := p.Open(context.Background(), onCPU, model{}, again, nil)
		ended <- err
	}()
	go func() {
		slow.Session = slow.Quarantine
		_, err := run(context.Background(), slow.Opened, 4)
		ended <- err
	}()
	weftest.Until(t, "two processes beside the worker, and a spare one", func() bool {
		return len(weftest.Children(os.Getpid())) == 4
	})
	go func() {
		p.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(weftest.Patience):
		slow.unlock(t)
		t.Fatal("the end waits for models that are being opened")
	}
	if left := weftest.Children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes that are left: %v", left)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a model was opened that could not be")
		}
	}
}

// TestClosingThatHangs: a process that does not close a session is replaced, and the others go on.
func TestClosingThatHangs(t *testing.T) {
	p, log := newPoolOf(t, worker.Config{}.Hasten())
	other := open(t, p)
	stays := openModel(t, p, onCPU, model{Opens: "stays"})
	closed := make(chan error, 1)
	go func() { closed <- stays.Session.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(weftest.Patience):
		t.Fatal("closing the session does not end")
	}
	weftest.Until(t, "the next process", func() bool {
		got, err := run(t.Context(), other, 3)
		return err == nil && got[0] == 6
	})
	if !slices.ContainsFunc(log.Event("worker_died"), func(r slog.Record) bool {
		return strings.Contains(weftest.Attr(r, "cause").String(), "did not close a session")
	}) {
		t.Error("the log does not say why the process died")
	}
}
