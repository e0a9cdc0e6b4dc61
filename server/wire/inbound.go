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

// Inbound decodes the request that came with one message of weft.v1. It is a reusable decode buffer: it holds one
// request after the other. The zero value is ready. It must not be copied.
//
// A plain message (see scanned) is decoded by hand, by Scan, which leaves the elements of tensors where they are.
// Others are decoded by proto.Unmarshal, which also says what is wrong with the broken ones.
type Inbound struct {
	// Request is the message, but for the elements of tensors that came in several pieces or in typed lists, which Decode
	// has. Its memory is the Inbound's: it stays as it is until the next message is read, or Forget. It is nil if the
	// message of a stream has no request.
	Request *weftv1.PredictRequest
	// Timeout and Supersede are those of a message of a stream.
	Timeout   *durationpb.Duration
	Supersede bool

	// scanned is where Scan decodes to. Request points into it after Scan, and not after Unmarshal.
	scanned scanned
}

// Scan decodes a plain PredictRequest, or a plain PredictStreamRequest, that came in these pieces. The request then
// refers to the pieces, which must not change until Forget. It reports whether the message is plain; if not, the caller
// must have Unmarshal decode it.
func (m *Inbound) Scan(pieces [][]byte, streamed bool) bool {
	m.Forget()
	s, data := &m.scanned, elements.NewSource(pieces)
	if !streamed && !s.request(data) || streamed && !s.streamRequest(data) {
		return false
	}
	m.Request, m.Timeout, m.Supersede = &s.message, s.timeout, s.supersede
	return true
}

// Unmarshal decodes any message by proto.Unmarshal. The request does not refer to the data. A *protect.DecodeError says
// that it would take too much memory. Where there is an error, Request has what could be decoded.
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

// left returns the elements of an input that Scan left where they lay; else there are none. It looks at one input after
// the other: a plain message has few.
func (m *Inbound) left(t *weftv1.Tensor) elements.Elements {
	for _, in := range m.scanned.inputs[:m.scanned.came] {
		if &in.tensor == t {
			return in.left
		}
	}
	return elements.Elements{}
}

// Clone returns a copy of the message, with all of its elements, which may be kept. It panics if a list that Scan
// counted is broken, which cannot be.
func (m *Inbound) Clone() *weftv1.PredictRequest {
	whole := proto.CloneOf(m.Request)
	for name, t := range m.Request.GetInputs() {
		e := m.left(t)
		if e.List == elements.None {
			continue
		}
		// A message of the list alone is merged into the copy, so that generated code decodes the list.
		list := protowire.AppendTag(nil, field(e.List), protowire.BytesType)
		list = protowire.AppendBytes(list, slices.Concat(e.Pieces...))
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(list, whole.GetInputs()[name]); err != nil {
			panic(fmt.Sprintf("a list that was counted is broken: %v", err))
		}
	}
	return whole
}

// Forget lets go of the bytes that the message was read from. It must be called before those are freed, and before the
// Inbound goes back to a pool.
func (m *Inbound) Forget() {
	m.Request, m.Timeout, m.Supersede = nil, nil, false
	m.scanned.reset()
}
