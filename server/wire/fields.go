package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/server/predict"
)

// fields reads the fields of a message, one after the other.
type fields struct {
	left     source
	seen     uint64 // bits, by field
	repeated uint64 // likewise: those that may come more than once

	// of the field that was read last
	tag   uint64
	value uint64 // as a number
	bytes source // as bytes

	// plain: the message is as expected until here; its reader says otherwise.
	plain bool
}

func fieldsOf(message source, repeated uint64) fields {
	return fields{left: message, repeated: repeated, plain: true}
}

// The tags of a field of a plain message, by how its value is encoded.
func number(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.VarintType) }

func bytes(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.BytesType) }

// next reads a field, and reports whether there was one. The message is not plain if it is broken, or if a field comes
// once more.
func (f *fields) next() bool {
	if !f.plain || len(f.left.head) == 0 {
		return false
	}
	if f.tag, f.plain = f.left.varint(); !f.plain {
		return false
	}
	switch protowire.Type(f.tag & 7) {
	case protowire.VarintType:
		f.value, f.plain = f.left.varint()
	case protowire.BytesType:
		var size uint64
		if size, f.plain = f.left.varint(); f.plain {
			f.plain = f.left.take(size, &f.bytes)
		}
	default:
		f.plain = false
	}
	bit := uint64(1) << min(f.tag>>3, 63)
	f.plain = f.plain && f.seen&bit&^f.repeated == 0
	f.seen |= bit
	return f.plain
}

// came reports whether a field was there, of those that the message may have.
func (f *fields) came(number uint64) bool { return f.seen>>number&1 != 0 }

// text sets a string to the bytes of a field. It makes none where the string is that one already, as names mostly are;
// long ones are not held on to.
func text(to *string, from *source) bool {
	if from.size() > predict.MaxIDBytes {
		return false
	}
	data := from.whole()
	if !utf8.Valid(data) {
		return false
	}
	if *to != string(data) {
		*to = string(data)
	}
	return true
}
