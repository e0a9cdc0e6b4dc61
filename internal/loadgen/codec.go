package loadgen

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// payload is a request, encoded once for all the times that it is sent.
type payload struct {
	encoded []byte
	rows    int64
}

// reply is the part of an answer that is of interest here: its tensors are not decoded.
type reply struct{ execution weftv1.ExecutionInfo }

// executionField is the number of PredictResponse.execution.
const executionField = 4

// codec carries payloads and replies, which on the wire are messages of weft.v1 like those of any client.
type codec struct{}

// Name makes the content type that of other clients.
func (codec) Name() string { return "proto" }

// Marshal gives the bytes of a payload, which are not copied.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*payload).encoded)}, nil
}

// Unmarshal reads a reply.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return v.(*reply).decode(whole.ReadOnlyData())
}

func (r *reply) decode(message []byte) error {
	r.execution.Reset()
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("the answer: %w", protowire.ParseError(n))
		}
		field := message[n:]
		n = protowire.ConsumeFieldValue(number, kind, field)
		if n < 0 {
			return fmt.Errorf("the answer: %w", protowire.ParseError(n))
		}
		if number == executionField && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(field)
			if err := proto.Unmarshal(value, &r.execution); err != nil {
				return fmt.Errorf("the answer: %w", err)
			}
		}
		message = field[n:]
	}
	return nil
}
