package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/wire/elements"
)

// Inbound is a request as it came, in memory that holds one request after the other. The zero value is ready. It must
// not be copied.
//
// Messages in the form that nearly all have are read by hand, which leaves the elements of tensors where they are. The
// generated code reads the others, and says what is wrong with the broken ones.
type Inbound struct {
	// Request is the message, but for the elements of tensors that came in several pieces or in typed lists, which Decode
	// has. It stays as it is until the next one is read.
	Request *weftv1.PredictRequest
	// Timeout and Supersede are those of a message of a stream.
	Timeout   *durationpb.Duration
	Supersede bool

	scanned scanned
}

// Scan reads by hand a PredictRequest, or a PredictStreamRequest, that came in these pieces. The message then refers to
// them. It reports whether that can be done; if not, Unmarshal is to read the message.
func (m *Inbound) Scan(pieces [][]byte, streamed bool) bool {
	m.Forget()
	s, data := &m.scanned, elements.NewSource(pieces)
	if !streamed && !s.request(data) || streamed && !s.streamRequest(data) {
		return false
	}
	m.Request, m.Timeout, m.Supersede = &s.message, s.timeout, s.supersede
	return true
}

// Unmarshal reads any message by the generated code. The message does not refer to the data. A *protect.DecodeError
// says that it would take too much memory.
func (m *Inbound) Unmarshal(data []byte, streamed bool) error {
	m.Forget()
	if !streamed {
		m.Request = &weftv1.PredictRequest{}
		return protect.Unmarshal(data, m.Request)
	}
	var whole weftv1.PredictStreamRequest
	err := protect.Unmarshal(data, &whole)
	m.Request, m.Timeout, m.Supersede = whole.GetRequest(), whole.GetTimeout(), whole.GetSupersede()
	return err
}

// Decode reads the input of that name, as the function Decode does. Its data may be in pieces, and floats of a typed
// list are the message's own memory too.
func (m *Inbound) Decode(input *tensor.Spec) (tensor.Tensor, elements.Form, error) {
	t := m.Request.GetInputs()[input.Name]
	return decode(input, t, m.left(t))
}

// left returns the elements of an input that has none because they were left where they lay; else there are none.
func (m *Inbound) left(t *weftv1.Tensor) elements.Elements {
	for _, in := range m.scanned.inputs[:m.scanned.came] {
		if &in.tensor == t {
			return in.left
		}
	}
	return elements.Elements{}
}

// Clone returns a copy of the message, with all of its elements. It panics if a list that was counted is broken, which
// cannot be.
func (m *Inbound) Clone() *weftv1.PredictRequest {
	whole := proto.CloneOf(m.Request)
	for name, t := range m.Request.GetInputs() {
		e := m.left(t)
		if e.List == elements.None {
			continue
		}
		list := protowire.AppendTag(nil, field(e.List), protowire.BytesType)
		list = protowire.AppendBytes(list, slices.Concat(e.Pieces...))
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(list, whole.GetInputs()[name]); err != nil {
			panic(fmt.Sprintf("a list that was counted is broken: %v", err))
		}
	}
	return whole
}

// Forget lets go of the bytes that the message was read from.
func (m *Inbound) Forget() {
	m.Request, m.Timeout, m.Supersede = nil, nil, false
	m.scanned.reset()
}
