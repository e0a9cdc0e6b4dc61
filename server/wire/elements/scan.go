package elements

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scan reads the fields of a message by hand, one after the other, which leaves their bytes where they lie.
type Scan struct {
	left     Source
	seen     uint64 // bits, by field; those from 63 on share the last one
	repeated uint64 // likewise: the fields that may come more than once

	// Tag, and Value or Bytes, are those of the field that was read last.
	Tag   uint64
	Value uint64
	Bytes Source
	// Plain: the message is as expected until here; its reader says otherwise.
	Plain bool
}

// ScanOf returns the fields of a message. repeated has a bit for each field that may come more than once.
func ScanOf(message Source, repeated uint64) Scan {
	return Scan{left: message, repeated: repeated, Plain: true}
}

// NumberTag returns the tag of a field whose value is a number.
func NumberTag(field protowire.Number) uint64 {
	return protowire.EncodeTag(field, protowire.VarintType)
}

// BytesTag returns the tag of a field whose value is text, bytes, a message, or a packed list.
func BytesTag(field protowire.Number) uint64 { return protowire.EncodeTag(field, protowire.BytesType) }

// Next reads a field, and reports whether there was one. The message is not plain if it is broken, if a field comes
// once more, or if a value has neither a length nor is a varint.
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

// Append appends the field that was read last.
func (f *Scan) Append(to []byte) []byte {
	to = protowire.AppendVarint(to, f.Tag)
	if protowire.Type(f.Tag&7) == protowire.VarintType {
		return protowire.AppendVarint(to, f.Value)
	}
	to = protowire.AppendVarint(to, uint64(f.Bytes.Size()))
	return f.Bytes.Append(to)
}

// Came reports whether a field that the message may have was there.
func (f *Scan) Came(number uint64) bool { return f.seen>>number&1 != 0 }

// SetText sets a string to the bytes of a field, and reports whether they may be one, of so many bytes at most. It
// allocates nothing where the string is that one already, as names mostly are.
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
