package transport

import (
	"slices"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/wire/elements"
)

// leastPiece is how large the pieces of a message are, on average, for which it is left in them. Smaller ones are
// joined: to hold on to them takes far more memory than they have bytes, and to go through them more time.
const leastPiece = 4 << 10

// codec is that of gRPC, and of messages that read and encode themselves: these get the buffers of gRPC and free them
// when they were read. Other messages are small, and generated code wants them in one piece.
type codec struct {
	encoding.CodecV2

	memory mem.BufferPool
}

// newCodec returns the codec for messages in a memory.
func newCodec(memory mem.BufferPool) codec {
	return codec{encoding.GetCodecV2(protocodec.Name), memory}
}

// Unmarshal implements encoding.CodecV2. A Message keeps what came, and gets a reference to it of its own; of all
// others nothing is kept. The caller frees data.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if m, is := into.(Message); is {
		if len(data) > 1 && data.Len() < len(data)*leastPiece {
			return m.Take(mem.BufferSlice{data.MaterializeToBuffer(c.memory)})
		}
		data.Ref() // gRPC frees its own reference when this returns
		return m.Take(data)
	}
	m, is := into.(proto.Message)
	if !is {
		return c.CodecV2.Unmarshal(data, into)
	}
	whole := data.MaterializeToBuffer(c.memory)
	defer whole.Free()
	return protect.Unmarshal(whole.ReadOnlyData(), m)
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(m any) (mem.BufferSlice, error) {
	if e, is := m.(*Encoded); is {
		return e.Pieces(), nil
	}
	return c.CodecV2.Marshal(m)
}

// typeOf returns the full name of the type of a message, "" for what is none.
func typeOf(message any) string {
	switch m := message.(type) {
	case Message:
		return m.Type()
	case proto.Message:
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return ""
}

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
func Encode(w *elements.Writer, memory tensor.Memory) (answer *Encoded, handedOver bool) {
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
