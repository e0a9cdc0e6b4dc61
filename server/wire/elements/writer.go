package elements

import "google.golang.org/protobuf/encoding/protowire"

// Writer encodes a message in pieces: large values are not copied. The zero value is ready.
//
// A length of protobuf stands before what it is of, and is known after it. So Wrap moves what was written, which is the
// short part of a message: the values lie elsewhere.
type Writer struct {
	// Head is the message without them.
	Head []byte
	// Values are the large values: each stands behind the first At bytes of Head, and behind those before it.
	Values []Value
	// Size is how many bytes the values have.
	Size int
}

// Value is bytes that are not copied.
type Value struct {
	At   int
	Data []byte
}

// Reset begins another message in the same memory.
func (w *Writer) Reset() {
	clear(w.Values)
	w.Head, w.Values, w.Size = w.Head[:0], w.Values[:0], 0
}

// Bytes returns how many bytes the message has.
func (w *Writer) Bytes() int { return len(w.Head) + w.Size }

// Text appends a field of text, Number one of a number: zero values are left out.
func (w *Writer) Text(field protowire.Number, value string) {
	if value != "" {
		w.Head = protowire.AppendTag(w.Head, field, protowire.BytesType)
		w.Head = protowire.AppendString(w.Head, value)
	}
}

// Number appends a field of a number: zero is left out.
func (w *Writer) Number(field protowire.Number, value int64) {
	if value != 0 {
		w.Head = protowire.AppendTag(w.Head, field, protowire.VarintType)
		w.Head = protowire.AppendVarint(w.Head, uint64(value))
	}
}

// Numbers appends a packed list, if it has any.
func (w *Writer) Numbers(field protowire.Number, values []int64) {
	if len(values) == 0 {
		return
	}
	begin := len(w.Head)
	for _, v := range values {
		w.Head = protowire.AppendVarint(w.Head, uint64(v))
	}
	w.Wrap(field, begin, 0)
}

// Announce appends the tag and the length of a field of bytes, which are to follow.
func (w *Writer) Announce(field protowire.Number, bytes int) {
	w.Head = protowire.AppendTag(w.Head, field, protowire.BytesType)
	w.Head = protowire.AppendVarint(w.Head, uint64(bytes))
}

// Value appends large bytes.
func (w *Writer) Value(data []byte) {
	w.Values = append(w.Values, Value{At: len(w.Head), Data: data})
	w.Size += len(data)
}

// Wrap makes what was appended to Head since begin, and so many bytes of values, the value of a field.
func (w *Writer) Wrap(field protowire.Number, begin, values int) {
	var room [2 * 10]byte // of two varints, of ten bytes at most
	prefix := protowire.AppendTag(room[:0], field, protowire.BytesType)
	prefix = protowire.AppendVarint(prefix, uint64(len(w.Head)-begin+values))
	w.Head = append(w.Head, prefix...)
	copy(w.Head[begin+len(prefix):], w.Head[begin:])
	copy(w.Head[begin:], prefix)
	for i := range w.Values {
		if w.Values[i].At > begin {
			w.Values[i].At += len(prefix)
		}
	}
}
