package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weftserve/weft/server/routing"
)

// UnknownMethodError says that no service of the listener has the method that was called.
type UnknownMethodError struct {
	Method string // as the call names it: any bytes
	// Elsewhere says which methods are at another address, and where; "": it is not known.
	Elsewhere string
}

func (e *UnknownMethodError) Error() string {
	return fmt.Sprintf("no method is called %s here; %s", routing.Quote(strings.TrimPrefix(e.Method, "/")),
		cmp.Or(e.Elsewhere, "server reflection lists those that there are, and weft.v1.AdminService is on the address of "+
			"--admin-listen"))
}

// BrokenMessageError says that the bytes of a call are not the message that it takes.
type BrokenMessageError struct {
	Want string // the full name of the message
	Why  string // what is wrong with the bytes
}

func (e *BrokenMessageError) Error() string {
	return fmt.Sprintf("the message is not a %s: %s; send what code generated from this server's .proto files encodes",
		e.Want, e.Why)
}

// MessageTooLargeError says that a message that came is larger than one may be. Trying again does not help.
type MessageTooLargeError struct {
	Bytes, Limit int    // Bytes is the size that came, as far as it is known
	Inflated     bool   // it became too large when it was decompressed
	What         string // what has that size; "": the message
	Fixed        bool   // no setting raises the limit
}

func (e *MessageTooLargeError) Error() string {
	remedy := "send fewer rows at a time, or raise --max-message-bytes"
	if e.Fixed {
		remedy = "send less"
	}
	if e.Inflated {
		return fmt.Sprintf("the message takes more than %d bytes when it is decompressed, which is the most; %s",
			e.Limit, remedy)
	}
	return fmt.Sprintf("%s takes %d bytes, of at most %d; %s", cmp.Or(e.What, "the message"), e.Bytes, e.Limit, remedy)
}

// AnswerTooLargeError says that an answer is larger than a message may be.
type AnswerTooLargeError struct {
	Bytes, Limit int    // Bytes may be only what was encoded until then
	Remedy       string // how to ask for less
}

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("the answer takes %d bytes, of at most %d; %s, or raise --max-message-bytes",
		e.Bytes, e.Limit, e.Remedy)
}

// UnsupportedError says that a protocol has something that this server does not. Instead says in a clause what to do.
type UnsupportedError struct{ What, Instead string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s: this server does not have that; %s", e.What, e.Instead)
}

// AbsentError says that something which a call names is not there. What is a sentence without its stop, and Remedy says
// what to do.
type AbsentError struct{ What, Remedy string }

func (e *AbsentError) Error() string { return e.What + "; " + e.Remedy }

// ViewersError says that as many watch the server as may at once (activity.MostViewers).
type ViewersError struct{ Limit int }

func (e *ViewersError) Error() string {
	return fmt.Sprintf("%d viewers watch this server, as many as may at once; close one, or try again later",
		e.Limit)
}

// ExistsError says that something which a call would make is there already.
type ExistsError struct{ What, Remedy string }

func (e *ExistsError) Error() string { return e.What + " is there already; " + e.Remedy }

// ElsewhereError says that a call which changes what is served is not answered on this listener.
type ElsewhereError struct{}

func (*ElsewhereError) Error() string {
	return "this address does not take calls that change what is served from everybody; call the address of " +
		"--admin-listen over gRPC, as `weft load` does, or let an access file say who may operate"
}

// CrowdedError says that the large bodies over HTTP which are under way take all the memory that there is for them. It
// is of all callers together; protect.CrowdedError is of one connection.
type CrowdedError struct{ Most int64 }

func (e *CrowdedError) Error() string {
	return fmt.Sprintf("large requests over HTTP take all of the %d bytes that they may have together; try again, or use "+
		"gRPC", e.Most)
}
