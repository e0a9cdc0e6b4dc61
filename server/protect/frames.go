package protect

import "encoding/binary"

// The types and flags of frames (RFC 9113, section 6).
const (
	frameData = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePushPromise
	framePing
	frameGoAway
	frameWindowUpdate
	frameContinuation

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

// prefaceBytes is how long the text is with which a client begins.
const prefaceBytes = 24

// headBytes is how long the beginning of a frame is: length, type, flags and stream.
const headBytes = 9

// head is the beginning of a frame.
type head struct {
	length      int // of what follows
	kind, flags byte
	stream      uint32
}

// scanner finds the frames in a sequence of bytes that comes in pieces. It keeps nothing of them but the beginning of
// one that is cut in two. Its zero value begins with a frame.
type scanner struct {
	begun [headBytes]byte
	have  int // bytes of the beginning of a frame that have come
	left  int // bytes to come of the rest of a frame
}

// next returns the next frame that begins in b, and the bytes after its beginning; false where b has no more.
func (s *scanner) next(b []byte) (h head, rest []byte, ok bool) {
	n := min(s.left, len(b))
	s.left -= n
	b = b[n:]
	if len(b) == 0 {
		return head{}, nil, false
	}
	n = copy(s.begun[s.have:], b)
	s.have += n
	if s.have < headBytes {
		return head{}, nil, false
	}
	s.have = 0
	h = head{
		length: int(s.begun[0])<<16 | int(s.begun[1])<<8 | int(s.begun[2]),
		kind:   s.begun[3], flags: s.begun[4], stream: binary.BigEndian.Uint32(s.begun[5:]) &^ (1 << 31),
	}
	s.left = h.length
	return h, b[n:], true
}

// between reports whether no frame is under way.
func (s *scanner) between() bool { return s.have == 0 && s.left == 0 }

// goAway returns a frame that asks the peer to go, and says why. Calls up to the last stream are still answered.
func goAway(last uint32, code uint32, why string) []byte {
	b := make([]byte, 0, headBytes+8+len(why))
	n := 8 + len(why)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), frameGoAway, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, code)
	return append(b, why...)
}

// enhanceYourCalm is the code for a peer that causes more load than it may (RFC 9113, section 7).
const enhanceYourCalm = 0xb
