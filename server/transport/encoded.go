package transport

import (
	"slices"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire/fields"
)

// Encoded is a message that was encoded before it is sent.
type Encoded struct {
	pieces mem.BufferSlice
	room   [2]mem.Buffer // of pieces, where there is one output
}

// Pieces returns the bytes, one after the other, with a reference to each that the caller frees.
func (a *Encoded) Pieces() mem.BufferSlice { return a.pieces }

// Bytes is how many there are.
func (a *Encoded) Bytes() int { return a.pieces.Len() }

// oneFrame is the size up to which an answer is copied into one buffer: that of the largest frame of gRPC, which the
// copy costs less than several buffers do.
const oneFrame = 16 << 10

// Encode returns the message that w has. The values of a large one are handed over with the memory that they lie in,
// which then goes back to that memory when they were sent.
func Encode(w *fields.Writer, memory tensor.Memory) (answer *Encoded, handedOver bool) {
	a := &Encoded{}
	a.pieces = a.room[:0]
	head, at := w.Head, 0
	if size := w.Bytes(); size <= oneFrame {
		whole := memory.Get(size)
		to := *whole
		for _, v := range w.Values {
			to = to[copy(to, head[at:v.At]):]
			to = to[copy(to, v.Data):]
			at = v.At
		}
		copy(to, head[at:])
		a.pieces = append(a.pieces, mem.NewBuffer(whole, memory))
		return a, false
	}
	head = slices.Clone(head)
	for _, v := range w.Values {
		a.pieces = append(a.pieces, mem.SliceBuffer(head[at:v.At]), mem.NewBuffer(&v.Data, memory))
		at = v.At
	}
	if at < len(head) {
		a.pieces = append(a.pieces, mem.SliceBuffer(head[at:]))
	}
	return a, true
}
