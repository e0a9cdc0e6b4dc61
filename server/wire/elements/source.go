package elements

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Source is bytes of a message that are still to be read. They lie in one piece of memory, as those of small messages
// do, or in several. A copy of a Source reads the same bytes again. Nothing is allocated for what is taken from it,
// unless it must be joined.
type Source struct {
	head []byte   // the first bytes; none: there are no others
	rest [][]byte // the pieces with the bytes that follow, which may hold more; not looked at if none follow
	more int      // how many bytes follow
}

// NewSource returns the bytes of a message that came in these pieces.
func NewSource(pieces [][]byte) Source {
	if len(pieces) == 1 {
		return Source{head: pieces[0]}
	}
	s := Source{rest: pieces}
	for _, p := range pieces {
		s.more += len(p)
	}
	// The first piece becomes the head; pieces without bytes are passed over.
	s.advance(0)
	return s
}

// Size returns how many bytes are left.
func (s *Source) Size() int { return len(s.head) + s.more }

// One returns the bytes, if they lie in one piece of memory.
func (s *Source) One() (data []byte, one bool) { return s.head, s.more == 0 }

// skip passes over n bytes, which are there. It is short enough to be inlined, as nearly all of them lie in the first
// piece.
func (s *Source) skip(n int) {
	if n < len(s.head) || s.more == 0 {
		s.head = s.head[n:]
		return
	}
	s.advance(n)
}

// advance is skip where the end of the first piece is reached. It keeps the invariant that head is empty only if there
// are no more bytes.
func (s *Source) advance(n int) {
	for n >= len(s.head) && s.more > 0 {
		n -= len(s.head)
		s.head = s.rest[0][:min(len(s.rest[0]), s.more)]
		s.rest, s.more = s.rest[1:], s.more-len(s.head)
	}
	s.head = s.head[n:]
}

// Take moves the first n bytes to part, and reports whether there are so many; if not, both stay as they are. n may
// come from the message, and have any value.
func (s *Source) Take(n uint64, part *Source) bool {
	switch {
	case n <= uint64(len(s.head)):
		part.head, part.more = s.head[:n:n], 0
	case n > uint64(s.Size()):
		return false
	default:
		*part = Source{s.head, s.rest, int(n) - len(s.head)}
	}
	s.skip(int(n))
	return true
}

// Varint takes a number off, and reports whether there is one.
func (s *Source) Varint() (uint64, bool) {
	if len(s.head) > 1 && s.head[0] < 0x80 { // one byte, as most are; after the last of a piece comes another piece
		value := s.head[0]
		s.head = s.head[1:]
		return uint64(value), true
	}
	return s.longVarint()
}

// longVarint takes any number off. One may lie in several pieces: then they are joined in memory of the stack.
func (s *Source) longVarint() (uint64, bool) {
	data := s.head
	var room [binary.MaxVarintLen64]byte
	if s.more > 0 && len(data) < len(room) { // the next piece may have the end of it
		n := copy(room[:], data)
		for i := 0; i < len(s.rest) && n < len(room); i++ {
			n += copy(room[n:], s.rest[i])
		}
		data = room[:min(n, s.Size())]
	}
	value, n := protowire.ConsumeVarint(data)
	if n < 0 {
		return 0, false
	}
	s.skip(n)
	return value, true
}

// AppendPieces appends the bytes, piece by piece, to a list of pieces. They are not copied.
func (s *Source) AppendPieces(to [][]byte) [][]byte {
	to = append(to, s.head)
	left := s.more
	for i := 0; left > 0; i++ {
		p := s.rest[i][:min(len(s.rest[i]), left)]
		to = append(to, p)
		left -= len(p)
	}
	return to
}

// Append appends a copy of the bytes.
func (s *Source) Append(to []byte) []byte {
	to = append(slices.Grow(to, s.Size()), s.head...)
	for i, end := 0, len(to)+s.more; len(to) < end; i++ {
		to = append(to, s.rest[i][:min(len(s.rest[i]), end-len(to))]...)
	}
	return to
}

// Whole returns the bytes in one piece, which is a copy only if they lie in several.
func (s *Source) Whole() []byte {
	if s.more == 0 {
		return s.head
	}
	return s.Append(nil)
}
