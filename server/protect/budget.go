package protect

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// times is how often its size a message may take when it is decoded, and free is what any message may take besides:
	// small messages are never refused for that.
	times, free = 4, 1 << 20
	// What is allocated for a message within another or an entry of a map, for a text, and for a number.
	objectBytes, textBytes, numberBytes = 256, 24, 8
	// deepest is how many messages may lie within each other. Each is a call on the stack.
	deepest = 100
)

// DecodeError says that a message has too many parts for its size.
type DecodeError struct{ Bytes, Most int }

func (e *DecodeError) Error() string {
	return fmt.Sprintf("its %d bytes would take more than %d when they are decoded; it has too many small parts: "+
		"send elements raw",
		e.Bytes, e.Most)
}

// MostDecoded returns how much memory a message of so many bytes may take when it is decoded.
func MostDecoded(bytes int) int { return free + times*bytes }

// Unmarshal decodes a message, but for fields that it does not have, unless it would take too much: then it returns a
// *DecodeError. It goes through the message twice, first only to add up. A large one waits for its turn.
func Unmarshal(data []byte, into proto.Message) error {
	var turn Turn
	defer turn.End()
	if len(data) > free/times {
		turn.Begin()
	}
	if err := check(data, into.ProtoReflect().Descriptor(), &turn); err != nil {
		return err
	}
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, into)
}

// check returns a *DecodeError if a message of that type would take too much. It does not say whether the message is
// broken, which decoding does.
func check(data []byte, of protoreflect.MessageDescriptor, turn *Turn) error {
	s := scale{most: MostDecoded(len(data)), turn: turn}
	if s.left = s.most; !s.message(data, of, 0) {
		return &DecodeError{Bytes: len(data), Most: s.most}
	}
	return nil
}

// scale adds up what a message takes, as it would be decoded by generated code. Left is what it may still take.
type scale struct {
	most, left int
	turn       *Turn
}

// takes reports whether so many bytes more are within bounds.
func (s *scale) takes(bytes int) bool {
	s.left -= bytes
	return s.left >= 0
}

// message goes through a message. It reports whether all is within bounds so far; what is broken ends it.
func (s *scale) message(data []byte, of protoreflect.MessageDescriptor, depth int) bool {
	if depth > deepest {
		return false
	}
	var last protowire.Number
	var field protoreflect.FieldDescriptor
	for len(data) > 0 {
		s.turn.Step(1)
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return true
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return true
		}
		if number != last {
			field, last = of.Fields().ByNumber(number), number
		}
		switch {
		case kind != protowire.BytesType, field == nil:
			if !s.takes(numberBytes + n) { // a number in a list, or an unknown field, which is kept as it came
				return false
			}
		case field.Message() != nil:
			part, _ := protowire.ConsumeBytes(data)
			if !s.takes(objectBytes) || !s.message(part, field.Message(), depth+1) {
				return false
			}
		case field.Kind() == protoreflect.StringKind, field.Kind() == protoreflect.BytesKind:
			if !s.takes(textBytes + n) {
				return false
			}
		default: // numbers in a list
			part, _ := protowire.ConsumeBytes(data)
			if !s.takes(s.sizeOf(field.Kind(), part)) {
				return false
			}
		}
		data = data[n:]
	}
	return true
}

// sizeOf returns how many bytes the numbers of a list take.
func (s *scale) sizeOf(kind protoreflect.Kind, list []byte) int {
	switch kind {
	case protoreflect.BoolKind, protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.Fixed32Kind,
		protoreflect.Fixed64Kind, protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind:
		return len(list)
	}
	n := 0
	const bytes = 16 // are looked at in a step
	for part := range slices.Chunk(list, bytes<<10) {
		s.turn.Step(len(part) / bytes)
		for _, b := range part {
			if b < 0x80 { // the last byte of a number
				n++
			}
		}
		if numberBytes*n > s.left {
			break
		}
	}
	return numberBytes * n
}
