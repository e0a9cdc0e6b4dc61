package transport

import (
	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// Message is a message that reads itself, so that what is large in it need not be copied.
type Message interface {
	// Take reads the message. It owns a reference to the data, which it frees as soon as it does not need them any more,
	// also if the error says that they are no such message.
	Take(data mem.BufferSlice) error
	// Type is the full name of the message's type.
	Type() string
}

// Request is a message of a protocol that asks for a prediction, on its way from its bytes to its answer. It is used
// again for another request once it was released.
type Request interface {
	Message
	// Common is what it has in common with the requests of other protocols.
	Common() *Exchange
	// Release gives back all that the request holds, but for the answer, which is its sender's.
	Release()
}

// Bringing is a message whose request has more bytes than the message itself, such as the bytes that it names in memory
// shared by its caller. They count as if they had come.
type Bringing interface {
	// Brings returns their number, 0 where the caller may not name them and will be denied.
	Brings(by *access.Caller) int
}

// brought returns how many bytes a message has besides its own, 0 for one that is not Bringing.
func brought(message any, by *access.Caller) int {
	if b, is := message.(Bringing); is {
		return b.Brings(by)
	}
	return 0
}

// Exchange is what the requests of all protocols have, which embed it.
type Exchange struct {
	predict.Request
	// Chosen: the caller has named the priority.
	Chosen bool
	// Answer is the message that answers, once the request was predicted, and Table what its header says; "": nothing.
	Answer any
	Table  string
	// By is who sent it, and Admission what it has of the quotas; both are zero on a server that is open to all.
	By        *access.Caller
	Admission access.Admission
	// Refused is why it was not let in, on a stream: its answer says so.
	Refused error
	// Holds is what the request has besides, which ends with it also where its handler panics.
	Holds []interface{ Release() }
}

// Common is a part of Request.
func (x *Exchange) Common() *Exchange { return x }

// Admit says who sent the request, with which priority, and what it has of the quotas.
func (x *Exchange) Admit(by *access.Caller, p sharedsched.Priority, a access.Admission, refused error) {
	x.By, x.Priority, x.Admission, x.Refused = by, p, a, refused
	if by != nil {
		x.Caller = by.Caller
	}
}

// Leave gives back what the request has of quotas, and all that it holds.
func (x *Exchange) Leave() {
	x.Admission.Release()
	for _, held := range x.Holds {
		held.Release()
	}
	clear(x.Holds)
	x.Holds = x.Holds[:0]
}

// Reset is Leave, and makes room for another request.
func (x *Exchange) Reset() {
	x.Leave()
	*x = Exchange{Holds: x.Holds}
}
