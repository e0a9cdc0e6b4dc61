package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// counting is a session whose Stats can be held up, and which notices when they come too late.
type counting struct {
	t       *testing.T
	replays uint64
	pause   func() // called by Stats; may be nil
	closed  atomic.Bool
}

func (c *counting) Signature() *tensor.Signature             { return &tensor.Signature{} }
func (c *counting) Run(context.Context, *tensor.Batch) error { return nil }

func (c *counting) Stats() engine.Stats {
	if c.pause != nil {
		c.pause()
	}
	if c.closed.Load() {
		c.t.Error("Stats was called on a closed session")
	}
	return engine.Stats{Graphs: engine.Graphs{Known: true, Replayed: c.replays}}
}

var errClose = errors.New("it does not close cleanly")

func (c *counting) Close() error {
	c.closed.Store(true)
	return errClose
}

// TestMeterKeepsTheLastReading: a session's last Stats are there when it is closed.
func TestMeterKeepsTheLastReading(t *testing.T) {
	s := &counting{t: t, replays: 1}
	m := engine.NewMeter(s)
	s.replays = 2
	if last, final := m.Last(); final || last.Graphs.Replayed != 1 {
		t.Errorf("%d replayed, final %t; want 1 of the opening", last.Graphs.Replayed, final)
	}
	if got := m.Read().Graphs.Replayed; got != 2 {
		t.Errorf("%d replayed, want 2", got)
	}
	s.replays = 3
	if err := m.Close(); !errors.Is(err, errClose) {
		t.Errorf("Close returned %v", err)
	}
	if last, final := m.Last(); !final || last.Graphs.Replayed != 3 || m.Read() != last {
		t.Errorf("closed: %+v, final %t, read %+v; want 3 replayed", last, final, m.Read())
	}
}

// TestMeterWaitsForReaders: a session is not closed while its Stats is being called, and a reader that calls the
// meter from there does not hold itself up.
func TestMeterWaitsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{t: t, replays: 1}
		m := engine.NewMeter(s)
		gate, done := make(chan struct{}), make(chan struct{})
		s.pause = func() {
			s.pause = nil
			m.Last()
			<-gate
			m.Read()
		}
		go m.Read()
		synctest.Wait()
		go func() {
			defer close(done)
			_ = m.Close()
		}()
		synctest.Wait()
		if s.closed.Load() {
			t.Error("it was closed under Stats")
		}
		close(gate)
		<-done
		if !s.closed.Load() {
			t.Error("it was not closed")
		}
	})
}

func TestKindOf(t *testing.T) {
	cause := errors.New("the cause")
	lost := &engine.Error{Kind: engine.DeviceLost, Err: cause}
	for name, test := range map[string]struct {
		err  error
		want engine.Kind
	}{
		"nothing": {nil, engine.ModelFailed},
		"plain":   {cause, engine.ModelFailed},
		"lost":    {lost, engine.DeviceLost},
		"wrapped": {fmt.Errorf("a run: %w", lost), engine.DeviceLost},
		"closed":  {engine.ErrClosed, engine.Terminated},
		"batch memory": {
			fmt.Errorf("a panic: %w", &tensor.OutOfMemoryError{Bytes: 1, Err: cause}),
			engine.OutOfMemory,
		},
		"outermost wins": {&engine.Error{Kind: engine.OutOfMemory, Err: lost}, engine.OutOfMemory},
		"joined":         {errors.Join(cause, lost), engine.DeviceLost},
	} {
		if got := engine.KindOf(test.err); got != test.want {
			t.Errorf("%s: kind %d, want %d", name, got, test.want)
		}
	}
	if lost.Error() != cause.Error() || !errors.Is(lost, cause) {
		t.Errorf("%v hides its cause", lost)
	}
}
