package serving

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestAVersionThatIsClosedHoldsNothing: neither its session, nor the memory of its batches, nor its part of the budget.
func TestAVersionThatIsClosedHoldsNothing(t *testing.T) {
	k := newKeeper()
	held, err := k.Memory.Take("m", 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	s := &closing{}
	r := s.replica(t, k, held)
	if err := r.closeSession(); err != nil {
		t.Fatal(err)
	}
	if inUse, _ := k.Memory.InUse(); s.closed != 1 || s.held.Load() > 0 || inUse != 0 {
		t.Errorf("closed %d times; its batches hold %d bytes and it is counted with %d", s.closed, s.held.Load(), inUse)
	}
}

// keeper owns versions that nothing happens to.
type keeper struct{ *Shared }

func newKeeper() *keeper {
	k := &keeper{}
	k.Shared = NewShared(Config{
		Owner: k, Fleet: fleet.New(nil, nil), Memory: fleet.NewBudget(0), Log: slog.New(slog.DiscardHandler),
	})
	return k
}

func (k *keeper) Find(*catalog.Version) (*Version, bool) { return nil, false }
func (k *keeper) Step(string, int64) *catalog.Version    { return nil }
func (k *keeper) Changed(string) <-chan struct{}         { return nil }
func (k *keeper) Judged(*Version)                        {}
func (k *keeper) Lost(*fleet.Device, error, *Version)    {}
func (k *keeper) Stirred()                               {}
func (k *keeper) Freed(bool)                             {}
func (k *keeper) Discard(*Replica)                       {}
func (k *keeper) Crashed(*Version, error)                {}
func (k *keeper) Go(func(context.Context)) bool          { return false }

// closing is a session that answers nothing, in memory of its own. It takes so long to give that back.
type closing struct {
	tensor.SystemMemory

	hangs  time.Duration
	held   atomic.Int64
	closed int
}

func (c *closing) Signature() *tensor.Signature {
	return &tensor.Signature{Inputs: []tensor.Spec{weftest.Spec("x", tensor.Uint8, tensor.Unknown)}}
}

func (c *closing) Run(context.Context, *tensor.Batch) error { return nil }

func (c *closing) Stats() engine.Stats { return engine.Stats{} }

func (c *closing) Allocate(size int) ([]byte, error) {
	c.held.Add(int64(size))
	return c.SystemMemory.Allocate(size)
}

func (c *closing) Free(memory []byte) {
	time.Sleep(c.hangs)
	c.held.Add(-int64(len(memory)))
	c.SystemMemory.Free(memory)
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// replica returns a replica with the session that has executed a batch.
func (c *closing) replica(t *testing.T, k *keeper, held *fleet.Holding) *Replica {
	t.Helper()
	v := k.NewVersion(residency.Candidate{Model: "m"}, 1, nil)
	loaded := execution.Load(engine.Opened{Session: c, Memory: c})
	loaded.Keep(1)
	r := v.newReplica(&Replica{Device: k.Fleet.Get("dev"), memory: held, giveCopy: func() {}}, loaded)
	r.unit.Follow(execution.NewPlan(c.Signature(), 0))
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{10000}, Data: make([]byte, 10000)}
	job := &execution.Job{Unit: r.unit, Rows: 1, Inputs: []tensor.Tensor{x}}
	execution.Execute(&sharedsched.Batch{Spans: []sharedsched.Span{{Payload: job, Rows: 1}}, Rows: 1, Padded: 1})
	if c.held.Load() == 0 {
		t.Fatal("nothing was executed in the engine's memory")
	}
	return r
}

// TestLockedBuffersOnALostDevice: to unlock them may hang as much as closing their session.
func TestLockedBuffersOnALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(), &closing{hangs: time.Hour}
		r := s.replica(t, k, nil)
		r.Device.Lose(errors.New("fell off the bus"))
		begin := time.Now()
		err := r.closeSession()
		if took := time.Since(begin); took != 5*time.Second || err == nil ||
			!strings.Contains(err.Error(), "left behind") {
			t.Errorf("after %v: %v", took, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.closed != 1 || s.held.Load() > 0 {
			t.Errorf("in the end it is closed %d times, and its batches hold %d bytes", s.closed, s.held.Load())
		}
	})
}
