package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// openTrying opens a model that is tried with values.
func openTrying(t *testing.T, p *worker.Pool, patience time.Duration,
	values ...float32,
) (o engine.Opened, got []float32, failed error) {
	t.Helper()
	o, err := p.Open(t.Context(), onCPU, model{}, nil, func(ctx context.Context, o engine.Opened) error {
		b := tensor.NewBatch(1, 1, o.Memory)
		defer b.Free()
		b.Patience = patience
		got, failed = runIn(ctx, b, o, values...)
		got = slices.Clone(got)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o, got, failed
}

// TestTrial: a model is tried in a process of its own. The death of that is an error there, and nobody else feels it.
func TestTrial(t *testing.T) {
	p, log := newPool(t)
	other := open(t, p)
	_, got, err := openTrying(t, p, time.Hour, 4, 5)
	if err != nil || !slices.Equal(got, []float32{8, 10}) {
		t.Errorf("a run that goes well: %v, %v", got, err)
	}
	for value, want := range map[float32]string{
		segfaulting: "SIGSEGV", exiting: "exit status 3", hanging: "did not end within 10ms",
	} {
		patience := time.Hour
		if value == hanging {
			patience = 10 * time.Millisecond
		}
		o, _, err := openTrying(t, p, patience, value)
		if engine.KindOf(err) != engine.Crashed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		answers(t, o, 8, "after %s", want)
	}
	if _, err := p.Open(t.Context(), onCPU, model{Opens: "dies"}, nil, nil); engine.KindOf(err) != engine.Crashed ||
		strings.Count(err.Error(), "the engine's process") != 1 {
		t.Errorf("a model that ends the process when it is opened: %v", err)
	}
	answers(t, other, 8, "another model")
	if died := log.Event("worker_died"); len(died) != 0 {
		t.Errorf("the worker died: %v", died)
	}
}

// TestATrialThatIsEndedFromOutside says nothing about the model, and the opening fails.
func TestATrialThatIsEndedFromOutside(t *testing.T) {
	p, log := newPool(t)
	var tried error
	_, err := p.Open(t.Context(), onCPU, model{}, nil, func(ctx context.Context, o engine.Opened) error {
		pid, err := run(ctx, o, telling)
		if err == nil {
			err = unix.Kill(int(pid[0]), unix.SIGKILL)
		}
		if err != nil {
			return err
		}
		_, tried = run(ctx, o, hanging)
		return nil
	})
	if tried == nil || engine.KindOf(tried) != engine.Terminated {
		t.Errorf("the run: %v", tried)
	}
	if engine.KindOf(err) != engine.Terminated || err == nil || !strings.Contains(err.Error(), "was not ended by a run") {
		t.Errorf("the opening: %v", err)
	}
	if n := len(log.Event("test_opened")); n != 1 {
		t.Errorf("it was opened %d times", n)
	}
}

// TestTrialRefuses: an error of the trial ends the opening before the model is opened in the worker.
func TestTrialRefuses(t *testing.T) {
	p, log := newPool(t)
	wrong := errors.New("not wanted")
	_, err := p.Open(t.Context(), onCPU, model{}, nil, func(context.Context, engine.Opened) error { return wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	if n := len(log.Event("test_opened")); n != 1 {
		t.Errorf("it was opened %d times", n)
	}
}

// TestOpeningThatDoesNotEnd: a model that is opened for too long is given up, and so is one whose load is.
func TestOpeningThatDoesNotEnd(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	p.SetOpenPatience(10 * time.Millisecond)
	if _, err := p.Open(t.Context(), onCPU, model{Opens: "hangs"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "did not open the model within 10ms") {
		t.Errorf("without end: %v", err)
	}
	p.SetOpenPatience(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.Open(ctx, onCPU, model{Opens: "hangs"}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	survives(t, o, log, 0)
}

// TestGivenUpWhileItIsOpened: a load that is given up while the model is opened in the worker leaves no session there.
func TestGivenUpWhileItIsOpened(t *testing.T) {
	p, log := newPool(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(first byte) {
		if _, err := file.WriteAt([]byte{first, 0, 0, 0}, 0); err != nil {
			t.Error(err)
		}
	}
	write(1)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.Open(ctx, onCPU, model{Opens: "waits"}, file, func(context.Context, engine.Opened) error {
			write(0)
			return nil
		})
		failed <- err
	}()
	weftest.Until(t, "the second opening", func() bool { return len(log.Event("test_opening")) == 2 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	const tried = 1 // closed after its trial
	if closed := log.Event("test_closed"); len(closed) > tried {
		t.Errorf("closed before it was open: %v", closed)
	}
	write(1)
	weftest.Until(t, "a session that is closed again", func() bool { return len(log.Event("test_closed")) == 1+tried })
}

// TestTrialsShareAProcess: models are tried in one process, one after the other, until one fails there. That one is
// tried once more in a new process, because another may be to blame.
func TestTrialsShareAProcess(t *testing.T) {
	p, _ := newPool(t)
	p.SetTriedIdle(time.Hour)
	tried := map[int]int{} // by process
	open := func(place worker.Place, values ...float32) error {
		t.Helper()
		_, err := p.Open(t.Context(), place, model{}, nil, func(ctx context.Context, o engine.Opened) error {
			b := tensor.NewBatch(1, 1, o.Memory)
			defer b.Free()
			b.Patience = 50 * time.Millisecond
			_, _ = runIn(ctx, b, o, values[0]) // a crash is a result, as for the proof of batching
			values = values[1:]
			tried[b.Process]++
			return nil
		})
		return err
	}
	for range 4 {
		if err := open(onCPU, 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(tried) != 1 {
		t.Errorf("four models were tried in %d processes", len(tried))
	}
	for crashes, value := range []float32{segfaulting, obedient} { // the latter takes too long, and stops when told to
		if err := open(onCPU, value, 1); err != nil || len(tried) != 2+crashes {
			t.Errorf("a model that failed where others were tried was tried in %d processes: %v", len(tried), err)
		}
	}
	if err := open(onCPU, segfaulting, segfaulting); err != nil || len(tried) != 4 {
		t.Errorf("a model that kills was tried in %d processes: %v", len(tried), err)
	}
	if err := open(ofOwner, 1); err != nil || len(tried) != 5 {
		t.Errorf("a version with a process of its own was tried in one that others had used: %v", err)
	}
}

// TestTriedProcessesEnd: a process that no other model needs is ended.
func TestTriedProcessesEnd(t *testing.T) {
	p, _ := newPool(t)
	p.SetTriedIdle(time.Millisecond)
	open(t, p)
	weftest.Until(t, "the worker and a spare process", func() bool { return len(weftest.Children(os.Getpid())) == 2 })
}
