package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// bound is that of a process in these tests, in MiB: far more than one takes at rest, also with the race detector.
const bound = 400

// isExceeded reports whether a run ended because its process took more memory than it may.
func isExceeded(err error) bool {
	e, is := errors.AsType[*engine.BoundError](err)
	return is && e.Bound > 0 && engine.KindOf(err) == engine.Crashed && strings.Contains(err.Error(), "--worker-memory")
}

// hoard has a session take so many MiB of memory, for good, and returns the error of the run.
func hoard(t *testing.T, o engine.Opened, mib float32) error {
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	_, err := run(ctx, o, hoarding, mib)
	return err
}

// TestMemoryBound: a run that takes more memory than its process may ends with that, and the memory is back; in
// quarantine that is its own fault.
func TestMemoryBound(t *testing.T) {
	p, log := newPoolWith(t, testPolicy(t), bound)
	o := open(t, p)
	if used, most := p.Memory(); used["cpu"] <= 0 || used["cpu"] > bound<<20 || most != bound<<20 {
		t.Errorf("the memory at rest is %v of %d", used, most)
	}
	start := time.Now()
	if err := hoard(t, o, 2*bound); !isExceeded(err) {
		t.Errorf("a run that takes twice the bound: %v", err)
	}
	var ended unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ended); err != nil {
		t.Error(err)
	}
	t.Logf("ended after %v; the process had %d MiB, with libraries, of %d", time.Since(start), ended.Maxrss>>10, bound)
	if got, err := run(t.Context(), o, taking, 10); err != nil || !slices.Equal(got, []float32{2 * taking, 20}) {
		t.Errorf("a run that takes less: %v, %v", got, err)
	}
	if len(log.Event("worker_died")) != 1 {
		t.Errorf("log: %v", log.Lines("worker"))
	}
	o.Session = o.Quarantine
	for range 2 {
		if err := hoard(t, o, 2*bound); !isExceeded(err) {
			t.Errorf("in quarantine, a run that takes twice the bound: %v", err)
		}
		if got, err := run(t.Context(), o, taking, 10); err != nil || got[1] != 20 {
			t.Errorf("in quarantine, a run that takes less: %v, %v", got, err)
		}
	}
}

// TestQuarantineMemory: a run has as much memory in quarantine as in the worker, where other models are open.
func TestQuarantineMemory(t *testing.T) {
	p, _ := newPoolWith(t, testPolicy(t), bound)
	openModel(t, p, onCPU, model{Takes: bound / 2})
	o := open(t, p)
	o.Session = o.Quarantine
	if err := hoard(t, o, bound*6/10); !isExceeded(err) {
		t.Errorf("a run that takes more than the other model leaves: %v", err)
	}
	if got, err := run(t.Context(), o, taking, 10); err != nil || got[1] != 20 {
		t.Errorf("a run that takes less: %v, %v", got, err)
	}
}

// TestQuarantineMemoryThatIsShared: in quarantine a run is not charged for what other models take by themselves, but
// not together.
func TestQuarantineMemoryThatIsShared(t *testing.T) {
	p, _ := newPoolWith(t, testPolicy(t), bound)
	for range 3 {
		openModel(t, p, onCPU, model{Once: bound * 3 / 10})
	}
	o := open(t, p)
	o.Session = o.Quarantine
	if got, err := run(t.Context(), o, taking, bound/4); err != nil || got[1] != bound/2 {
		t.Errorf("a run that takes less than there is: %v, %v", got, err)
	}
	if err := hoard(t, o, bound*3/4); !isExceeded(err) {
		t.Errorf("a run that takes more: %v", err)
	}
}

// TestMemoryToOpen: a model that needs more memory than there is, by itself or with the others, is not opened, which
// harms no other.
func TestMemoryToOpen(t *testing.T) {
	p, log := newPoolWith(t, testPolicy(t), bound)
	o := open(t, p)
	if _, err := p.Open(t.Context(), onCPU, model{Takes: 2 * bound}, nil, nil); !isExceeded(err) {
		t.Errorf("a model that takes twice the bound: %v", err)
	}
	half := model{Takes: bound * 6 / 10}
	if _, err := p.Open(t.Context(), onCPU, half, nil, nil); err != nil {
		t.Errorf("a model that takes more than half of it: %v", err)
	}
	if _, err := p.Open(t.Context(), onCPU, half, nil, nil); engine.KindOf(err) != engine.OutOfMemory ||
		!strings.Contains(err.Error(), "MiB left; raise") {
		t.Errorf("another: %v", err)
	}
	survives(t, o, log, 0)
}

// TestMemoryToOpenTogether: models that do not fit together while they are opened are opened one after the other, for
// the first time and in the next process.
func TestMemoryToOpenTogether(t *testing.T) {
	p, log := newPoolWith(t, testPolicy(t), bound)
	o := open(t, p)
	var large [3]engine.Opened
	var failed [3]error
	var all sync.WaitGroup
	for i := range large {
		all.Go(func() {
			large[i], failed[i] = p.Open(t.Context(), onCPU, model{Needs: bound * 3 / 4}, nil, nil)
		})
	}
	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatal(err)
	}
	crashes(t, o)
	for _, o := range append(large[:], o) {
		answers(t, o, 8, "a run")
	}
	if n := len(log.Event("worker_died")); n != 1 {
		t.Errorf("%d deaths: %v", n, log.Lines("worker"))
	}
}

// TestOrderOfReopening: models that fit in one order only are opened in that.
func TestOrderOfReopening(t *testing.T) {
	p, _ := newPoolWith(t, testPolicy(t), bound)
	killer := open(t, p)
	var all []engine.Opened
	for _, m := range []model{{Takes: bound / 5, Needs: bound / 2}, {Takes: bound / 2}} {
		o := openModel(t, p, onCPU, m)
		all = append(all, o)
	}
	for range 3 {
		crashes(t, killer)
		for i, o := range all {
			answers(t, o, 8, "model %d", i)
		}
	}
}

// TestLargeAnswers: outputs above the limit of a batch are refused before the server makes room for them; a process
// that insists on them is ended.
func TestLargeAnswers(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	b.Most = 100_000
	values := make([]float32, 1000)
	for value, want := range map[float32]engine.Kind{large: engine.AnswerTooLarge, greedy: engine.Crashed} {
		values[0] = value
		_, err := runIn(t.Context(), b, o, values...)
		e, is := errors.AsType[*tensor.TooLargeError](err)
		if engine.KindOf(err) != want || is && (e.Bytes != 400_000 || e.Most != b.Most) {
			t.Errorf("value %v: %v, want kind %d", value, err, want)
		}
		if len(b.Room(0)) > 0 {
			t.Errorf("value %v: the server made room for %d bytes", value, len(b.Room(0)))
		}
	}
	b.Most = 0
	values[0] = large
	if _, err := runIn(t.Context(), b, o, values...); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	b.Most = 100_000
	values[0] = greedy // for which there is room now
	if _, err := runIn(t.Context(), b, o, values...); engine.KindOf(err) != engine.Crashed {
		t.Errorf("above the limit, in memory that it had: %v", err)
	}
	values[0] = 1
	b.Most = 4000
	if got, err := runIn(t.Context(), b, o, values...); err != nil || got[0] != 2 {
		t.Errorf("as much as there may be: %v", err)
	}
	if len(log.Event("worker_died")) != 2 {
		t.Errorf("log: %v", log.Lines("worker"))
	}
}
