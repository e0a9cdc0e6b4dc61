package wire

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// source is bytes of a message that are still to be read. They lie in one piece of memory, as those of small messages
// do, or in several.
type source struct {
	head []byte // the first bytes; none: there are no others
	tail *tail  // those that follow; nil: none
}

// tail is the bytes behind a piece.
type tail struct {
	pieces [][]byte // which may hold more
	size   int
}

func newSource(pieces [][]byte) source {
	if len(pieces) == 1 {
		return source{head: pieces[0]}
	}
	t := tail{pieces: pieces}
	for _, p := range pieces {
		t.size += len(p)
	}
	s := source{tail: &t}
	s.skip(0)
	return s
}

func (s *source) size() int {
	if s.tail == nil {
		return len(s.head)
	}
	return len(s.head) + s.tail.size
}

// skip passes over n bytes, which are there.
func (s *source) skip(n int) {
	if n < len(s.head) || s.tail == nil {
		s.head = s.head[n:]
		return
	}
	s.advance(n)
}

// advance is skip beyond the first piece.
func (s *source) advance(n int) {
	t := *s.tail
	for n >= len(s.head) && t.size > 0 {
		n -= len(s.head)
		s.head = t.pieces[0][:min(len(t.pieces[0]), t.size)]
		t.pieces, t.size = t.pieces[1:], t.size-len(s.head)
	}
	s.head, s.tail = s.head[n:], nil
	if t.size > 0 {
		s.tail = &t
	}
}

// take takes the first n bytes off, and reports whether there are so many.
func (s *source) take(n uint64) (part source, ok bool) {
	switch {
	case n <= uint64(len(s.head)):
		part.head = s.head[:n:n]
	case n > uint64(s.size()):
		return part, false
	default:
		part.head, part.tail = s.head, &tail{s.tail.pieces, int(n) - len(s.head)}
	}
	s.skip(int(n))
	return part, true
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
	if s.tail != nil && len(data) < len(room) { // the next piece may have the end of it
		n := copy(room[:], data)
		for _, p := range s.tail.pieces {
			n += copy(room[n:], p)
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
	if s.tail == nil {
		return to
	}
	left := s.tail.size
	for _, p := range s.tail.pieces {
		p = p[:min(len(p), left)]
		if left -= len(p); len(p) > 0 {
			to = append(to, p)
		}
	}
	return to
}

// whole returns the bytes in one piece, which is a copy only if they lie in several.
func (s *source) whole() []byte {
	if s.tail == nil {
		return s.head
	}
	return slices.Concat(s.appendPieces(nil)...)
}
