package host

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestPoolGivesItsMemoryBack(t *testing.T) {
	p := pool{inputs: 1, outputs: 1, most: 2}
	var used [4]*buffers
	for i := range used {
		used[i] = p.take()
		used[i].batch.Input(0, tensor.Uint8, tensor.Shape{10000}, 10000)
		used[i].parts = append(used[i].parts, part{job: &job{}})
	}
	for i, b := range used[:3] {
		p.give(b)
		if kept, want := b.batch.Cap() > 0, i < 2; kept != want {
			t.Errorf("buffers %d kept: %v, want %v: there are two lanes", i, kept, want)
		}
		if parts := b.parts[:1]; parts[0].job != nil {
			t.Errorf("buffers %d refer to a request", i)
		}
	}
	if again := p.take(); again != used[1] {
		t.Error("kept buffers were not used again")
	} else {
		p.give(again)
	}
	p.close()
	p.give(used[3]) // of a run that ends late
	for i, b := range used {
		if b.batch.Cap() > 0 {
			t.Errorf("buffers %d hold %d bytes after close", i, b.batch.Cap())
		}
	}
}

// TestAVersionThatIsClosedHoldsNothing: neither its session, nor the memory of its batches, nor what it was counted with.
func TestAVersionThatIsClosedHoldsNothing(t *testing.T) {
	h := New(Config{MemoryBudget: synthMemory})
	held, err := h.memory.Take("m", 1, synthMemory)
	if err != nil {
		t.Fatal(err)
	}
	s := &closing{}
	v := &replica{version: &version{model: "m"}, device: h.fleet.Get("dev"), opened: engine.Opened{Session: s}, meter: engine.NewMeter(s), memory: held, buffers: &pool{inputs: 1, outputs: 1, most: 1}}
	b := v.buffers.take()
	b.batch.Input(0, tensor.Uint8, tensor.Shape{10000}, 10000)
	v.buffers.give(b)
	if err := h.closeSession(v); err != nil {
		t.Fatal(err)
	}
	if s.closed != 1 || b.batch.Cap() > 0 || h.Counts().MemoryInUse != 0 {
		t.Errorf("closed %d times; its batches hold %d bytes and it is counted with %d", s.closed, b.batch.Cap(), h.Counts().MemoryInUse)
	}
}

// closing is a session that can only be closed.
type closing struct {
	engine.Session

	closed int
}

func (c *closing) Stats() engine.Stats { return engine.Stats{} }

func (c *closing) Close() error {
	c.closed++
	return nil
}

// hanging is memory that is page-locked by a driver which does not come back for an hour.
type hanging struct{ tensor.SystemMemory }

func (h hanging) Free(memory []byte) {
	time.Sleep(time.Hour)
	h.SystemMemory.Free(memory)
}

// TestLockedBuffersOnALostDevice: to unlock them may hang as much as closing their session.
func TestLockedBuffersOnALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := New(Config{Logger: slog.New(slog.DiscardHandler)}), &closing{}
		r := &replica{
			version: &version{model: "m"}, device: h.fleet.Get("dev"), opened: engine.Opened{Session: s}, meter: engine.NewMeter(s),
			buffers: &pool{inputs: 1, outputs: 1, most: 1, memory: hanging{}},
		}
		b := r.buffers.take()
		b.batch.Input(0, tensor.Uint8, tensor.Shape{10000}, 10000)
		r.buffers.give(b)
		h.LoseDevice("dev", errors.New("fell off the bus"))
		begin := time.Now()
		err := h.closeSession(r)
		if took := time.Since(begin); took != 5*time.Second || err == nil || !strings.Contains(err.Error(), "left behind") {
			t.Errorf("after %v: %v", took, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.closed != 1 || b.batch.Cap() > 0 {
			t.Errorf("in the end it is closed %d times, and its batches hold %d bytes", s.closed, b.batch.Cap())
		}
	})
}
