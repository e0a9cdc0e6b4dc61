package status

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
)

// BrokenMessageError says that a call did not get the message that it takes.
type BrokenMessageError struct {
	Want string // the full name of the message
	Why  string
}

func (e *BrokenMessageError) Error() string {
	return fmt.Sprintf("the message is not a %s: %s; send what code generated from this server's .proto files encodes",
		e.Want, e.Why)
}

// MessageTooLargeError says that a message that came is larger than one may be.
type MessageTooLargeError struct {
	Bytes, Limit int  // Bytes is the size that came, as far as it is known
	Inflated     bool // it became too large when it was decompressed
}

func (e *MessageTooLargeError) Error() string {
	const remedy = "send fewer rows at a time, or raise --max-message-bytes"
	if e.Inflated {
		return fmt.Sprintf("the message takes more than %d bytes when it is decompressed, which is the most; %s",
			e.Limit, remedy)
	}
	return fmt.Sprintf("the message takes %d bytes, of at most %d; %s", e.Bytes, e.Limit, remedy)
}

// AnswerTooLargeError says that an answer is larger than a message may be.
type AnswerTooLargeError struct {
	Bytes, Limit int
	Remedy       string // how to ask for less
}

func (e *AnswerTooLargeError) Error() string {
	return fmt.Sprintf("the answer takes %d bytes, of at most %d; %s, or raise --max-message-bytes",
		e.Bytes, e.Limit, e.Remedy)
}

// messageFault is the part of the table for messages that cannot be read or sent.
func messageFault(err error) (fault, bool) {
	if e, ok := errors.AsType[*AnswerTooLargeError](err); ok {
		return fault{
			code: codes.ResourceExhausted, reason: "ANSWER_TOO_LARGE", retry: -1, pushback: true,
			numbers: []string{"bytes", strconv.Itoa(e.Bytes), "max_message_bytes", strconv.Itoa(e.Limit)},
		}, true
	}
	if _, ok := errors.AsType[*BrokenMessageError](err); ok {
		return fault{code: codes.InvalidArgument}, true
	}
	if e, ok := errors.AsType[*MessageTooLargeError](err); ok {
		f := fault{code: codes.ResourceExhausted, reason: "MESSAGE_TOO_LARGE", retry: -1, pushback: true}
		if !e.Inflated {
			f.numbers = []string{"bytes", strconv.Itoa(e.Bytes)}
		}
		f.numbers = append(f.numbers, "max_message_bytes", strconv.Itoa(e.Limit))
		return f, true
	}
	return fault{}, false
}
