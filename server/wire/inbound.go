package wire

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Inbound is a request as it came, in memory that holds one request after the other. The zero value is ready. It must
// not be copied.
//
// Messages in the form that nearly all have are read by hand, which leaves the elements of tensors where they are. The
// generated code reads the others, and says what is wrong with those that are broken.
type Inbound struct {
	// Request is the message. It stays as it is until the next one is read.
	Request *weftv1.PredictRequest
	// Timeout and Supersede are those of a message of a stream.
	Timeout   *durationpb.Duration
	Supersede bool
	// Aliased: the message refers to the bytes that it was read from.
	Aliased bool

	scanned scanned
}

// Read reads a PredictRequest.
func (m *Inbound) Read(data []byte) error {
	m.Forget()
	if m.Aliased = m.scanned.request(data); m.Aliased {
		m.Request = &m.scanned.message
		return nil
	}
	m.Request = &weftv1.PredictRequest{}
	return proto.Unmarshal(data, m.Request)
}

// ReadStreamed reads a PredictStreamRequest.
func (m *Inbound) ReadStreamed(data []byte) error {
	m.Forget()
	if m.Aliased = m.scanned.streamRequest(data); m.Aliased {
		m.Request, m.Timeout, m.Supersede = &m.scanned.message, m.scanned.timeout, m.scanned.supersede
		return nil
	}
	var whole weftv1.PredictStreamRequest
	err := proto.Unmarshal(data, &whole)
	m.Request, m.Timeout, m.Supersede = whole.GetRequest(), whole.GetTimeout(), whole.GetSupersede()
	return err
}

// Forget lets go of the bytes that the message was read from.
func (m *Inbound) Forget() {
	m.Request, m.Timeout, m.Supersede = nil, nil, false
	m.scanned.reset()
}
