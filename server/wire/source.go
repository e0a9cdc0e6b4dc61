package wire

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// source is bytes of a message that are still to be read. They lie in one piece of memory, as those of small messages
// do, or in several.
type source struct {
	head []byte   // the first bytes; none: there are no others
	rest [][]byte // the pieces with those that follow, which may hold more
	more int      // how many follow
}

func newSource(pieces [][]byte) source {
	if len(pieces) == 1 {
		return source{head: pieces[0]}
	}
	s := source{rest: pieces}
	for _, p := range pieces {
		s.more += len(p)
	}
	s.advance(0)
	return s
}

func (s *source) size() int { return len(s.head) + s.more }

// skip passes over n bytes, which are there.
func (s *source) skip(n int) {
	if n < len(s.head) || s.more == 0 {
		s.head = s.head[n:]
		return
	}
	s.advance(n)
}

// advance is skip beyond the first piece.
func (s *source) advance(n int) {
	for n >= len(s.head) && s.more > 0 {
		n -= len(s.head)
		s.head = s.rest[0][:min(len(s.rest[0]), s.more)]
		s.rest, s.more = s.rest[1:], s.more-len(s.head)
	}
	s.head = s.head[n:]
}

// take moves the first n bytes to part, and reports whether there are so many.
func (s *source) take(n uint64, part *source) bool {
	switch {
	case n <= uint64(len(s.head)):
		part.head, part.more = s.head[:n:n], 0
	case n > uint64(s.size()):
		return false
	default:
		*part = source{s.head, s.rest, int(n) - len(s.head)}
	}
	s.skip(int(n))
	return true
}

// varint takes a number off, and reports whether there is one.
func (s *source) varint() (uint64, bool) {
	if len(s.head) > 1 && s.head[0] < 0x80 { // as most are
		value := s.head[0]
		s.head = s.head[1:]
		return uint64(value), true
	}
	return s.longVarint()
}

func (s *source) longVarint() (uint64, bool) {
	data := s.head
	var room [binary.MaxVarintLen64]byte
	if s.more > 0 && len(data) < len(room) { // the next piece may have the end of it
		n := copy(room[:], data)
		for i := 0; i < len(s.rest) && n < len(room); i++ {
			n += copy(room[n:], s.rest[i])
		}
		data = room[:min(n, s.size())]
	}
	value, n := protowire.ConsumeVarint(data)
	if n < 0 {
		return 0, false
	}
	s.skip(n)
	return value, true
}

// appendPieces appends the bytes, piece by piece.
func (s *source) appendPieces(to [][]byte) [][]byte {
	to = append(to, s.head)
	left := s.more
	for i := 0; left > 0; i++ {
		p := s.rest[i][:min(len(s.rest[i]), left)]
		to = append(to, p)
		left -= len(p)
	}
	return to
}

// whole returns the bytes in one piece, which is a copy only if they lie in several. They are few.
func (s *source) whole() []byte {
	if s.more == 0 {
		return s.head
	}
	return slices.Concat(s.appendPieces(nil)...)
}
