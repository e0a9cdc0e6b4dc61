package shell

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/trace"
)

// stuck is a writer whose first writes are done when it is let go.
type stuck struct {
	bytes.Buffer
	let chan struct{}
}

func (w *stuck) Write(lines []byte) (int, error) {
	<-w.let
	return w.Buffer.Write(lines)
}

func traced(t *testing.T, given Options) (*Scheduler, sharedsched.VersionID) {
	t.Helper()
	s, err := New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "d", Lanes: 1}}}, &curve{base: time.Millisecond},
		given)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.AddFlow("m", "d", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.AddVersion("m/1", f, batched())
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

// TestSlowWriterCutsTheTrace: a writer that is stuck holds up no caller, and the lines that wait for it are bounded;
// when it goes on, the trace is good until it was cut, and says that it was.
func TestSlowWriterCutsTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stuck{let: make(chan struct{})}
		told := 0
		s, v := traced(t, Options{Trace: w, TraceCut: func() { told++ }})
		s.mu.Lock()
		s.recorder.room = 10_000
		s.mu.Unlock()
		for range 100 {
			if err := do(t.Context(), s, v, 1, nil)[0]; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		s.mu.Lock()
		waits := len(s.recorder.lines)
		s.mu.Unlock()
		if waits < 10_000 || waits > 11_000 || told != 1 {
			t.Errorf("%d bytes wait for the writer, told %d times; want hardly more than 10000, once", waits, told)
		}
		close(w.let)
		s.Close()
		sum, err := trace.Replay(&w.Buffer)
		if err != nil || !sum.Cut || sum.Tasks < 10 || sum.Tasks > 90 {
			t.Errorf("the replay of %d tasks, cut: %v, %v; want some tasks, and then the cut", sum.Tasks, sum.Cut, err)
		}
	})
}

// full is a writer that fails, as that of a full disk does.
type full struct {
	mu     sync.Mutex
	writes int
}

func (w *full) Write([]byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	return 0, errors.New("no space left on device")
}

// TestFailingWriterEndsTheTrace: nothing is recorded for a writer that failed.
func TestFailingWriterEndsTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &full{}
		s, v := traced(t, Options{Trace: w})
		synctest.Wait()
		failed := w.writes
		for range 10 {
			if err := do(t.Context(), s, v, 1, nil)[0]; err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		if failed == 0 || w.writes != failed {
			t.Errorf("%d writes, then %d more; want none after the first that failed", failed, w.writes-failed)
		}
	})
}
