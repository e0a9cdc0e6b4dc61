package elements

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scan decodes the fields of a message by hand, one after the other, which leaves their bytes where they lie. A reader
// calls Next and looks at Tag, and sets Plain to false for what it does not take. At the end Plain says whether it
// could decode the message; if not, the reader has generated code decode it.
type Scan struct {
	left     Source
	seen     uint64 // bits of the fields that came, by number; those from 63 on share the last one
	repeated uint64 // likewise: the fields that may come more than once

	// Tag is that of the field that was read last: its number and its wire type. By the type either Value or Bytes is set.
	Tag   uint64
	Value uint64
	Bytes Source
	// Plain: all fields so far could be decoded by hand. Next sets it to false, and so does the reader; then Next reads no
	// more.
	Plain bool
}

// ScanOf returns a scan of the fields of a message. repeated has a bit for each field that may come more than once,
// 1<<n for number n.
func ScanOf(message Source, repeated uint64) Scan {
	return Scan{left: message, repeated: repeated, Plain: true}
}

// NumberTag returns the tag of a field whose value is a varint: a number, a bool or an enum.
func NumberTag(field protowire.Number) uint64 {
	return protowire.EncodeTag(field, protowire.VarintType)
}

// BytesTag returns the tag of a field whose value is text, bytes, a message, or a packed list.
func BytesTag(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.BytesType) }

// Next reads a field, and reports whether there was one. The message is not plain if it is broken, if a field comes
// once more, or if a value neither is a varint nor has a length: a number of fixed size, or a group.
func (f *Scan) Next() bool {
	if !f.Plain || len(f.left.head) == 0 {
		return false
	}
	if f.Tag, f.Plain = f.left.Varint(); !f.Plain {
		return false
	}
	switch protowire.Type(f.Tag & 7) {
	case protowire.VarintType:
		f.Value, f.Plain = f.left.Varint()
	case protowire.BytesType:
		var size uint64
		if size, f.Plain = f.left.Varint(); f.Plain {
			f.Plain = f.left.Take(size, &f.Bytes)
		}
	default:
		f.Plain = false
	}
	bit := uint64(1) << min(f.Tag>>3, 63)
	f.Plain = f.Plain && f.seen&bit&^f.repeated == 0
	f.seen |= bit
	return f.Plain
}

// Append appends the field that was read last to an encoded message, and copies its value.
func (f *Scan) Append(to []byte) []byte {
	to = protowire.AppendVarint(to, f.Tag)
	if protowire.Type(f.Tag&7) == protowire.VarintType {
		return protowire.AppendVarint(to, f.Value)
	}
	to = protowire.AppendVarint(to, uint64(f.Bytes.Size()))
	return f.Bytes.Append(to)
}

// Came reports whether a field was there, whose number is below 63.
func (f *Scan) Came(number uint64) bool { return f.seen>>number&1 != 0 }

// SetText sets a string to the bytes of a field, and reports whether they may be one: UTF-8, of so many bytes at most.
// It allocates nothing where the string is that one already, as names mostly are.
func SetText(to *string, from *Source, most int) bool {
	if from.Size() > most {
		return false
	}
	data := from.Whole()
	if !utf8.Valid(data) {
		return false
	}
	if *to != string(data) {
		*to = string(data)
	}
	return true
}
