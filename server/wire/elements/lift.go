package elements

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/server/protect"
)

// Fields are those of a message whose values may be large, by their numbers.
type Fields map[protowire.Number]Field

// Field is a field of bytes (List is Raw), or a packed list of floats (Float, Double), whose value is large; or else,
// with Within, a message that has such fields.
type Field struct {
	List   List
	Within Fields
}

// Lifted decodes a message without its large values, which stay where they lie. In the decoded message their indexes
// stand for them: Bytes, Singles and Doubles turn what a field holds into the value. The zero value is ready. It is a
// reusable decode buffer that holds one message after the other, and must not be copied.
//
// The values refer to the pieces of the message, which must not change until Reset.
type Lifted struct {
	rest   Writer     // the message without the values, which generated code decodes
	values []Elements // by the indexes that stand for them; none: the message was decoded as a whole
	pieces [][]byte   // of all values, which have parts of it
}

// mostLifted bounds the values, so that an index is one byte (see Bytes) and little memory is kept. mostRest bounds the
// bytes without them, which are copied and kept. A message with more is decoded as a whole.
const mostLifted, mostRest = 64, 64 << 10

// Unmarshal decodes a message that came in these pieces, but for the values of some fields. If lift cannot take it
// apart, generated code decodes the whole message, which copies its values. A *protect.DecodeError says that the
// message would take too much memory.
func (l *Lifted) Unmarshal(pieces [][]byte, into proto.Message, large Fields) error {
	l.Reset()
	message := NewSource(pieces)
	// At the top any field may come more than once: the large ones there are repeated.
	if l.lift(message, large, math.MaxUint64) {
		return protect.Unmarshal(l.rest.Head, into)
	}
	l.Reset()
	return protect.Unmarshal(message.Whole(), into)
}

// lift copies a message to the rest, with indexes in the place of large values, and reports whether it could. It calls
// itself for the messages within. repeated has a bit for each field that may come more than once. It cannot if the
// message is broken, if there is much beside the values, or if the form is one that hardly any client uses: a list
// comes in parts or not packed, or some other field is a number of fixed size.
func (l *Lifted) lift(message Source, large Fields, repeated uint64) bool {
	f := ScanOf(message, repeated)
	for f.Next() {
		number, kind := protowire.DecodeTag(f.Tag)
		field, is := large[number]
		begin, bytes := len(l.rest.Head), kind == protowire.BytesType
		switch {
		case begin > mostRest, !is && bytes && f.Bytes.Size() > mostRest, is && !bytes:
			return false
		case !is, f.Bytes.Size() == 0:
			l.rest.Head = f.Append(l.rest.Head)
		case field.Within != nil:
			// Within a tensor a large field may come once only: the later one would replace the former, or be joined to it.
			once := uint64(0)
			for n := range field.Within {
				once |= 1 << n
			}
			if !l.lift(f.Bytes, field.Within, ^once) {
				return false
			}
			l.rest.Wrap(number, begin, 0)
		default:
			count, whole := Counted(field.List, f.Bytes)
			if !whole || len(l.values) == mostLifted {
				return false
			}
			// Eight bytes are the shortest value that generated code takes for bytes, for two singles and for one
			// double.
			const indexBytes = 8
			l.rest.Announce(number, indexBytes)
			l.rest.Head = little.AppendUint64(l.rest.Head, uint64(len(l.values)))
			before := len(l.pieces)
			l.pieces = f.Bytes.AppendPieces(l.pieces)
			l.values = append(l.values, Elements{field.List, count, l.pieces[before:]})
		}
	}
	return f.Plain
}

// Bytes returns the elements of a field of bytes that was decoded as this: its first byte is the index, as there are at
// most mostLifted of them. A message that was decoded as a whole has the elements themselves. Each value that is not
// empty was replaced, so what stands in a field of a message with values always is an index.
func (l *Lifted) Bytes(came []byte) Elements {
	switch {
	case len(came) == 0:
		return Elements{}
	case len(l.values) > 0:
		return l.values[came[0]]
	}
	return Elements{Raw, len(came), [][]byte{came}}
}

// Singles returns the elements of a list of floats that was decoded as this.
func (l *Lifted) Singles(came []float32) Elements {
	switch {
	case len(came) == 0:
		return Elements{}
	case len(l.values) > 0:
		return l.values[math.Float32bits(came[0])]
	}
	return floats(Float, came)
}

// Doubles returns the elements of a list of doubles that was decoded as this.
func (l *Lifted) Doubles(came []float64) Elements {
	switch {
	case len(came) == 0:
		return Elements{}
	case len(l.values) > 0:
		return l.values[math.Float64bits(came[0])]
	}
	return floats(Double, came)
}

// floats returns elements that generated code has decoded, in a copy, as they lay in the message.
func floats[T any](l List, came []T) Elements {
	data, _ := binary.Append(nil, little, came) // numbers can be written
	return Elements{l, len(came), [][]byte{data}}
}

// Reset lets go of the message, whose pieces may then be freed. It keeps its own memory, which the bounds above keep
// small.
func (l *Lifted) Reset() {
	clear(l.values)
	clear(l.pieces)
	l.rest.Head, l.values, l.pieces = l.rest.Head[:0], l.values[:0], l.pieces[:0]
}
