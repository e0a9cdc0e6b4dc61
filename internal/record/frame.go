package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

const (
	magic         = "\x89WEFTREC"
	formatVersion = 1
	preambleBytes = len(magic) + 4
	frameBytes    = 8 // of a frame before its payload
	// maxPayload bounds, in bytes, the payloads that are written, so that lengths stay uint32. gRPC messages are
	// smaller.
	maxPayload = math.MaxInt32
)

var (
	little     = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errTooBig  = fmt.Errorf("the entry is larger than %d bytes", maxPayload)
	errShort   = errors.New("an entry's parts are longer than itself")
)

// preamble returns the bytes with which each file begins.
func preamble() []byte {
	return little.AppendUint32([]byte(magic), formatVersion)
}

// beginFrame makes room for the head of a frame at the end of dst. endFrame fills it in once the payload is appended.
func beginFrame(dst []byte) []byte { return append(dst, make([]byte, frameBytes)...) }

// endFrame takes the whole frame.
func endFrame(frame []byte) error {
	payload := frame[frameBytes:]
	if len(payload) > maxPayload {
		return errTooBig
	}
	little.PutUint32(frame, uint32(len(payload)))
	little.PutUint32(frame[4:], checksum(frame[:4], payload))
	return nil
}

// checksum covers the length too: a damaged length would otherwise be read as an entry of that size.
func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// appendHeader appends the frame of a file's header.
func appendHeader(dst []byte, h *Header) ([]byte, error) {
	// JSON lets later releases add fields without another version of the format.
	text, err := json.Marshal(h)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(beginFrame(dst), text...)
	return dst, endFrame(dst[start:])
}

// appendEntry appends the frame of an entry. After an error, dst is as it was.
func appendEntry(dst []byte, e *Entry) ([]byte, error) {
	// The frame's length and checksum are put in at the end, when they are known.
	start := len(dst)
	facts, err := json.Marshal(e)
	if err != nil {
		return dst, err
	}
	out := binary.AppendUvarint(beginFrame(dst), uint64(len(facts)))
	out = append(out, facts...)
	if out, err = appendMessage(out, e.Request, e.Request != nil); err != nil {
		return dst, err
	}
	if out, err = appendMessage(out, e.Response, e.Response != nil); err != nil {
		return dst, err
	}
	if err := endFrame(out[start:]); err != nil {
		return dst, err
	}
	return out, nil
}

// appendMessage appends a message behind its length plus 1, or a 0 if there is none. proto.Size has just computed the
// sizes that the encoder uses.
func appendMessage(dst []byte, m proto.Message, present bool) ([]byte, error) {
	if !present {
		return binary.AppendUvarint(dst, 0), nil
	}
	dst = binary.AppendUvarint(dst, uint64(proto.Size(m))+1)
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
}

// parseEntry is the inverse of appendEntry, for the payload of a frame.
func parseEntry(payload []byte) (*Entry, error) {
	facts, rest, err := cut(payload, 0)
	if err != nil {
		return nil, err
	}
	e := &Entry{}
	if err := json.Unmarshal(facts, e); err != nil {
		return nil, err
	}
	request, rest, err := cut(rest, 1)
	if err != nil {
		return nil, err
	}
	response, _, err := cut(rest, 1)
	if err != nil {
		return nil, err
	}
	if request != nil {
		e.Request = &weftv1.PredictRequest{}
		if err := proto.Unmarshal(request, e.Request); err != nil {
			return nil, err
		}
	}
	if response != nil {
		e.Response = &weftv1.PredictResponse{}
		if err := proto.Unmarshal(response, e.Response); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// cut splits off a part that stands behind its length, which was written as so much more. A length of less than that
// stands for no part, which is nil.
func cut(b []byte, more uint64) (part, rest []byte, err error) {
	length, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, nil, errShort
	}
	b = b[n:]
	if length < more {
		return nil, b, nil
	}
	length -= more
	if length > uint64(len(b)) {
		return nil, nil, errShort
	}
	return b[:length:length], b[length:], nil
}
