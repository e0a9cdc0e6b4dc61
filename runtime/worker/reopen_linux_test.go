package worker_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// filed is a model whose opening obeys its file.
type filed struct {
	engine.Opened
	file *os.File // to write to it, and to lock it
}

func openFiled(t *testing.T, p *worker.Pool) *filed {
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
	if f.Opened, err = p.Open(t.Context(), "cpu", "", model{}, file, nil); err != nil {
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
	slow, o := openFiled(t, p), open(t, p)
	slow.lock(t)
	for range 2 {
		if _, err := run(t.Context(), o, segfaulting); engine.KindOf(err) != engine.Crashed {
			t.Errorf("a crash: %v", err)
		}
		if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{8}) {
			t.Errorf("beside a model that is still being opened: %v, %v", got, err)
		}
	}
	b := tensor.NewBatch(1, 1, slow.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{0}, 0)
	err := slow.Session.Run(t.Context(), b)
	if _, is := errors.AsType[*engine.ReopeningError](err); !is || engine.KindOf(err) != engine.Terminated {
		t.Errorf("a run of the model that is still being opened: %v", err)
	}
	slow.unlock(t)
	if got, err := run(t.Context(), slow.Opened, 4); err != nil || !slices.Equal(got, []float32{12}) {
		t.Errorf("once it was opened: %v, %v", got, err)
	}
	slow.lock(t)
	if _, err := run(t.Context(), o, segfaulting); engine.KindOf(err) != engine.Crashed {
		t.Errorf("a crash: %v", err)
	}
	if err := slow.Session.Close(); err != nil {
		t.Error(err)
	}
	if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{8}) {
		t.Errorf("once the other was closed: %v, %v", got, err)
	}
	slow.unlock(t)
}

// TestAnOpeningThatKills: a model that ends the process in which it is opened again is found by itself, and left out.
func TestAnOpeningThatKills(t *testing.T) {
	p, log := newPool(t)
	killer, o := openFiled(t, p), open(t, p)
	killer.write(t, deadly)
	if _, err := run(t.Context(), o, segfaulting); engine.KindOf(err) != engine.Crashed {
		t.Errorf("a crash: %v", err)
	}
	for {
		got, err := run(t.Context(), o, 4)
		if engine.KindOf(err) == engine.Crashed && err != nil {
			continue
		}
		if err != nil || !slices.Equal(got, []float32{8}) {
			t.Errorf("beside a model that cannot be opened: %v, %v", got, err)
		}
		_, err = run(t.Context(), killer.Opened, 4)
		if err == nil || engine.KindOf(err) != engine.Crashed {
			t.Fatalf("a run of the model that cannot be opened: %v", err)
		}
		if strings.Contains(err.Error(), "cannot be opened again") {
			break // else the process died while it waited for it
		}
	}
	deaths := len(log.Event("worker_died"))
	for range 20 {
		if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{8}) {
			t.Errorf("afterwards: %v, %v", got, err)
		}
	}
	if now := len(log.Event("worker_died")); now != deaths || now > 2 {
		t.Errorf("%d deaths, %d afterwards: %v", deaths, now, log.Lines(""))
	}
}
