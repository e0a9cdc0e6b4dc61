package weftapi

import (
	"slices"

	"google.golang.org/grpc/mem"
)

// answer is a message that was encoded. It implements transport.Encoded.
type answer struct {
	pieces mem.BufferSlice
	room   [2]mem.Buffer // of pieces, where there is one output
}

// Pieces implements transport.Encoded.
func (a *answer) Pieces() mem.BufferSlice { return a.pieces }

// Bytes implements transport.Encoded.
func (a *answer) Bytes() int { return a.pieces.Len() }

// oneFrame is the size up to which an answer is copied into one buffer: that of the largest frame of gRPC, which the
// copy costs less than several buffers do.
const oneFrame = 16 << 10

// pieces returns the answer that out describes. Large ones are handed over with the memory that the results lie in.
func (c *codec) pieces() *answer {
	a := &answer{}
	a.pieces = a.room[:0]
	head, at := c.out.Head, 0
	if c.out.Size <= oneFrame {
		whole := c.api.Memory.Get(c.out.Size)
		to := *whole
		for _, e := range c.out.Elements {
			to = to[copy(to, head[at:e.At]):]
			to = to[copy(to, e.Data):]
			at = e.At
		}
		copy(to, head[at:])
		a.pieces = append(a.pieces, mem.NewBuffer(whole, c.api.Memory))
		return a
	}
	head = slices.Clone(head)
	for _, e := range c.out.Elements { // which the message ends with
		a.pieces = append(a.pieces, mem.SliceBuffer(head[at:e.At]), mem.NewBuffer(&e.Data, c.api.Memory))
		at = e.At
	}
	c.given = true
	return a
}
