//go:build linux

package worker

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// page is the memory of a lane. The server writes requests into one half, the worker answers into the other. The
// side that has written rings the other's bell, and does not touch the page until its own is rung in turn.
type page struct {
	memory          []byte
	asked, answered *bell
	request, answer []byte
}

const (
	halfBytes = 256 << 10
	pageBytes = 2*bellBytes + 2*halfBytes
)

// newPage returns a side's view of a page.
func newPage(memory []byte, by waiter) *page {
	bells, halves := memory[:2*bellBytes], memory[2*bellBytes:]
	return &page{
		memory: memory, asked: newBell(bells, by), answered: newBell(bells[bellBytes:], by),
		request: halves[:halfBytes], answer: halves[halfBytes:],
	}
}

// The requests, and the answers to them.
const (
	runRequest  = 1 // run a session
	moreRequest = 2 // the room that the worker asked for, or none

	doneAnswer   = 1 // the outputs are complete
	moreAnswer   = 2 // an output needs more room
	failedAnswer = 3
)

// errPage says that a half of a page has no room.
var errPage = errors.New("a run has more tensors or dimensions than a lane's page holds")

// cursor reads or writes a half of a page, in order. Once something does not fit, it is bad and does nothing more.
type cursor struct {
	half []byte
	at   int
	bad  bool
}

func (c *cursor) room(n int) []byte {
	if c.bad || n < 0 || n > len(c.half)-c.at {
		c.bad = true
		return nil
	}
	c.at += n
	return c.half[c.at-n : c.at]
}

func (c *cursor) put(values ...int64) {
	for _, v := range values {
		if b := c.room(8); b != nil {
			binary.LittleEndian.PutUint64(b, uint64(v))
		}
	}
}

func (c *cursor) get() int64 {
	if b := c.room(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// getByte reads a number of a list that fits a byte.
func (c *cursor) getByte() byte {
	n := c.get()
	c.bad = c.bad || n != int64(byte(n))
	return byte(n)
}

// getKind reads the kind of an error.
func (c *cursor) getKind() engine.Kind {
	kind := engine.Kind(c.getByte())
	c.bad = c.bad || kind > engine.NotOpen
	return kind
}

// count reads a number of things that take at least 8 bytes each.
func (c *cursor) count() int {
	n := c.get()
	if n < 0 || n > int64(len(c.half)-c.at)/8 {
		c.bad = true
		return 0
	}
	return int(n)
}

func (c *cursor) putTensor(slab uint32, t *tensor.Tensor) {
	c.put(int64(slab), int64(t.DType), int64(len(t.Data)), int64(len(t.Shape)))
	c.put(t.Shape...)
}

// getTensor reads a tensor without its data. Its shape is in shape's memory if that suffices.
func (c *cursor) getTensor(shape tensor.Shape) (slab uint32, t tensor.Tensor, size int) {
	slab, t.DType = uint32(c.get()), tensor.DType(c.getByte())
	size = int(c.get())
	t.Shape = slices.Grow(shape[:0], 4)
	for range c.count() {
		t.Shape = append(t.Shape, c.get())
	}
	return slab, t, size
}

func (c *cursor) putText(text string) {
	text = text[:min(len(text), halfBytes/2)]
	c.put(int64(len(text)))
	copy(c.room(len(text)), text)
}

func (c *cursor) getText() string { return string(c.room(int(c.get()))) }

// putStats and getStats carry what a session reports of itself; it comes with each answer, so that it never waits.
func (c *cursor) putStats(took time.Duration, s engine.Stats) {
	c.put(int64(took), flag(s.Graphs.Known), int64(s.Graphs.Replayed), int64(s.Graphs.Eager),
		int64(s.Graphs.Failures), flag(s.Memory.Known), s.Memory.Peak, s.Memory.Held)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *cursor) getStats() (took time.Duration, s engine.Stats) {
	took = time.Duration(c.get())
	s.Graphs = engine.Graphs{
		Known: c.get() == 1, Replayed: uint64(c.get()), Eager: uint64(c.get()), Failures: uint64(c.get()),
	}
	s.Memory = engine.Memory{Known: c.get() == 1, Peak: c.get(), Held: c.get()}
	c.bad = c.bad || s.Memory.Peak < 0 || s.Memory.Held < 0
	return took, s
}
