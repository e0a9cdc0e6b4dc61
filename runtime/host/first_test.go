package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// tried is an engine with processes of its own: f is tried as the first session before it is opened.
func tried(first, f *fake) func(context.Context, engine.Try) (engine.Opened, error) {
	return func(ctx context.Context, try engine.Try) (engine.Opened, error) {
		if err := try(ctx, first.Open()); err != nil {
			return engine.Opened{}, err
		}
		if first.Closed() == 0 {
			return engine.Opened{}, errors.New("the session that was tried is open still")
		}
		o := f.Open()
		o.Device, o.Provider = "dev", "fake"
		return o, nil
	}
}

// TestFirstRowCrashes: a version whose first made-up row ended the process where it was tried is served without a
// further one, also when its settings ask for a proof later.
func TestFirstRowCrashes(t *testing.T) {
	for name, kind := range map[string]engine.Kind{"crash": engine.Crashed, "lost device": engine.DeviceLost} {
		for _, mode := range []modelrepo.BatchMode{modelrepo.BatchAuto, modelrepo.BatchOff, modelrepo.BatchOn} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				first, f := times(2), times(2)
				first.Answer = func(*tensor.Batch) error { return &engine.Error{Kind: kind, Err: errors.New("SIGFPE")} }
				w := newWorld(t, 1)
				w.add("m", 1, tried(first, f), func(m *modelrepo.Manifest) { m.Batching.Mode = mode })
				v := w.load("m")
				if v.State != catalog.Ready || v.Batching.Batched != (mode == modelrepo.BatchOn) {
					t.Errorf("state %v, batched %v: %s", v.State, v.Batching.Batched, v.Batching.Reason)
				}
				if v.RowCrashed != "SIGFPE" || strings.Contains(v.Batching.Reason, "batching.mode: on joins them") {
					t.Errorf("it is said to have crashed by %q: %s", v.RowCrashed, v.Batching.Reason)
				}
				if n := v.Signature.Notes; len(n) == 0 || !strings.HasSuffix(n[len(n)-1], "the first one crashed: SIGFPE") {
					t.Errorf("notes %q", n)
				}
				if at, ran := first.Forget(), f.Forget(); len(at) != 1 || len(ran) != 0 {
					t.Errorf("runs %v where it was tried, and %v where it is served; want one and none", at, ran)
				}
				if len(w.logs.Event("made_up_row_crashed")) != 1 {
					t.Errorf("log: %v", w.logs.Lines(""))
				}
				if y, err := w.answer(v); err != nil || y != 6 {
					t.Errorf("a request: %v, %v", y, err)
				}
				f.Forget()
				w.edit("m", func(m *modelrepo.Manifest) {
					m.Batching.Mode, m.Batching.Tolerance = modelrepo.BatchAuto, 0.1
				})
				w.reconcile()
				weftest.Until(t, "another proof", func() bool { return len(w.logs.Event(provenAnew)) == 1 })
				if ran := f.Forget(); len(ran) != 0 || w.version("m", 1).Batching.Batched {
					t.Errorf("proven again with runs %v: %v", ran, w.logs.Lines(""))
				}
			})
		}
	}
}

// TestFirstRowTeachesPatience: the first run where others run, too, has patience by the time of the row that was tried.
func TestFirstRowTeachesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, f := times(2), times(2)
		first.Answer = func(answer func(*tensor.Batch) error) func(*tensor.Batch) error {
			return func(b *tensor.Batch) error {
				if b.Patience != time.Hour {
					t.Errorf("the row that was tried had %v", b.Patience)
				}
				time.Sleep(time.Second)
				return answer(b)
			}
		}(first.Answer)
		var patience []time.Duration
		f.Answer = func(answer func(*tensor.Batch) error) func(*tensor.Batch) error {
			return func(b *tensor.Batch) error {
				patience = append(patience, b.Patience)
				return answer(b)
			}
		}(f.Answer)
		w := newWorldOf(t, 1, func(c *host.Config) { c.RunTimeout = time.Hour })
		w.add("m", 1, tried(first, f), nil)
		if v := w.load("m"); v.State != catalog.Ready || !v.Batching.Batched {
			t.Errorf("state %v, batched %v: %s", v.State, v.Batching.Batched, v.Batching.Reason)
		}
		if len(patience) == 0 || patience[0] != 20*time.Second {
			t.Errorf("patience of the runs: %v, want 20s first", patience)
		}
	})
}

// TestInterruptedFirstRow: closing ends a load whose first row hangs.
func TestInterruptedFirstRow(t *testing.T) {
	w := newWorld(t, 1)
	begun := make(chan struct{})
	w.add("m", 1, func(ctx context.Context, try engine.Try) (engine.Opened, error) {
		o := times(2).Open()
		o.Session = &stubborn{o.Session, begun}
		return engine.Opened{}, try(ctx, o)
	}, nil)
	go func() { _ = w.Reconcile(t.Context(), w.listing) }()
	<-begun
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(w.logs.Event("made_up_row_crashed")) != 0 {
		t.Errorf("log: %v", w.logs.Lines(""))
	}
}

// stubborn is a session whose first run is stopped with its process.
type stubborn struct {
	engine.Session
	begun chan struct{}
}

func (s *stubborn) Run(ctx context.Context, _ *tensor.Batch) error {
	close(s.begun)
	<-ctx.Done()
	return &engine.Error{Kind: engine.Crashed, Err: errors.New("a run did not stop when it was told to")}
}
