package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/server/predict"
)

// field is one field of a message: its tag, and its value as a number or as bytes.
type field struct {
	tag   uint64
	value uint64
	bytes source
}

// The tags of a field of a plain message, by how its value is encoded.
func number(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.VarintType) }

func bytes(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.BytesType) }

// take takes the first field off a message, and reports whether there is one.
func (f *field) take(data *source) (ok bool) {
	if f.tag, ok = data.varint(); !ok {
		return false
	}
	switch protowire.Type(f.tag & 7) {
	case protowire.VarintType:
		f.value, ok = data.varint()
	case protowire.BytesType:
		var size uint64
		if size, ok = data.varint(); ok {
			f.bytes, ok = data.take(size)
		}
	default:
		return false
	}
	return ok
}

// each calls read for each field of a message, and reports whether that was true for all, each came once, but for those
// whose bits are set in repeated, and the message is whole.
func each(data source, repeated uint64, read func(f field) bool) bool {
	var f field
	for seen := uint64(0); len(data.head) > 0; {
		if !f.take(&data) {
			return false
		}
		bit := uint64(1) << min(f.tag>>3, 63)
		if seen&bit&^repeated != 0 || !read(f) {
			return false
		}
		seen |= bit
	}
	return true
}

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
