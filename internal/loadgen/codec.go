package loadgen

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// payload is a request, encoded once for all the times that it is sent: encoding would take processor time from
// sending.
type payload struct {
	encoded []byte
	rows    int64
}

// reply is the part of an answer that the report needs. Its tensors are not decoded. A goroutine uses the same reply
// for all its requests.
type reply struct {
	version   string // that answered; "" where the client knew it before
	execution weftv1.ExecutionInfo
	failure   error // of a request on a line
}

// executionField is the number of PredictResponse.execution.
const executionField = 4

// codec encodes payloads and decodes replies. The bytes on the wire are the same messages that any client sends.
type codec struct{}

// Name makes the content type that of other clients.
func (codec) Name() string { return "proto" }

// Marshal gives the bytes of a payload, which are not copied.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, is := v.(*lineMessage); is {
		return m.encode()
	}
	return mem.BufferSlice{mem.SliceBuffer(v.(*payload).encoded)}, nil
}

// Unmarshal reads a reply.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if err := v.(interface{ decode([]byte) error }).decode(whole.ReadOnlyData()); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	return nil
}

// decode reads a PredictResponse. The reply may hold an earlier answer, whose execution it forgets.
func (r *reply) decode(message []byte) error {
	r.execution.Reset()
	return fieldsOf(message, func(number protowire.Number, value []byte) error {
		if number == executionField {
			return proto.Unmarshal(value, &r.execution)
		}
		return nil
	})
}

// fieldsOf calls give for each field of a message whose value is bytes: a text, bytes or a message. It skips all other
// fields, and copies nothing.
func fieldsOf(message []byte, give func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		field := message[n:]
		n = protowire.ConsumeFieldValue(number, kind, field)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(field)
			if err := give(number, value); err != nil {
				return err
			}
		}
		// Fields of other kinds are skipped by their length.
		message = field[n:]
	}
	return nil
}
