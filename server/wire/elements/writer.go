package elements

import "google.golang.org/protobuf/encoding/protowire"

// Writer encodes a message in pieces: large values are not copied. The zero value is ready.
//
// Protobuf writes a length before the field that has it, and here it is known only after that field. So a field that is
// a message is written first, and Wrap then moves it to make room for its tag and its length. It moves the short part
// of the message only: the values lie elsewhere.
type Writer struct {
	// Head is the message without the values.
	Head []byte
	// Values are the large values, in their order: each stands behind the first At bytes of Head, and behind the values
	// before it.
	Values []Value
	// Size is how many bytes all values have together.
	Size int
}

// Value is bytes that are not copied, and must not change until the message is sent. At is its place in Head.
type Value struct {
	At   int
	Data []byte
}

// Reset begins another message in the same memory, and lets go of the values.
func (w *Writer) Reset() {
	clear(w.Values)
	w.Head, w.Values, w.Size = w.Head[:0], w.Values[:0], 0
}

// Bytes returns how many bytes the message has.
func (w *Writer) Bytes() int { return len(w.Head) + w.Size }

// Text appends a field of text, unless it is empty: that is the default, which proto3 does not write.
func (w *Writer) Text(field protowire.Number, value string) {
	if value != "" {
		w.Head = protowire.AppendTag(w.Head, field, protowire.BytesType)
		w.Head = protowire.AppendString(w.Head, value)
	}
}

// Number appends a field of a number, a bool or an enum, unless it is 0.
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

// Announce appends the tag and the length of a field of bytes. The caller appends them by Value, at once or after it
// has wrapped what they are in.
func (w *Writer) Announce(field protowire.Number, bytes int) {
	w.Head = protowire.AppendTag(w.Head, field, protowire.BytesType)
	w.Head = protowire.AppendVarint(w.Head, uint64(bytes))
}

// Value appends large bytes at the end of Head.
func (w *Writer) Value(data []byte) {
	w.Values = append(w.Values, Value{At: len(w.Head), Data: data})
	w.Size += len(data)
}

// Wrap makes what was appended to Head since begin, and so many bytes of values, the value of a field. It counts in
// values that were appended since begin, and values that are announced and still to come. Its time grows with the bytes
// of Head since begin, and with the number of values.
func (w *Writer) Wrap(field protowire.Number, begin, values int) {
	var room [2 * 10]byte // of two varints, of ten bytes at most
	prefix := protowire.AppendTag(room[:0], field, protowire.BytesType)
	prefix = protowire.AppendVarint(prefix, uint64(len(w.Head)-begin+values))
	// The prefix makes Head long enough; then what it belongs to is moved behind it.
	w.Head = append(w.Head, prefix...)
	copy(w.Head[begin+len(prefix):], w.Head[begin:])
	copy(w.Head[begin:], prefix)
	for i := range w.Values {
		// A value at begin itself stands before the field.
		if w.Values[i].At > begin {
			w.Values[i].At += len(prefix)
		}
	}
}
