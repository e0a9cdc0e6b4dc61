package transport

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/protect"
)

// leastPiece is how large the pieces of a message are, on average, for which it is left in them. Smaller ones are
// joined: to hold on to them takes far more memory than they have bytes, and to go through them more time.
const leastPiece = 4 << 10

// codec is that of gRPC, and of messages that read and encode themselves.
type codec struct {
	encoding.CodecV2

	memory mem.BufferPool
}

func newCodec(memory mem.BufferPool) codec {
	return codec{encoding.GetCodecV2(protocodec.Name), memory}
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if m, is := into.(Message); is {
		if len(data) > 1 && data.Len() < len(data)*leastPiece {
			return m.Take(mem.BufferSlice{data.MaterializeToBuffer(c.memory)})
		}
		data.Ref()
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
