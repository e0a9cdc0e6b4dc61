package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
)

// inbound is the part of gRPC's stream of a call that reads. These methods are not promised: where one is missing, gRPC
// reads.
type inbound interface {
	// ReadMessageHeader fills the header of the next message. io.EOF: there is none.
	ReadMessageHeader(header []byte) error
	// Read returns so many bytes; the caller frees them.
	Read(n int) (mem.BufferSlice, error)
	// RecvCompress names how messages are compressed, "" or identity if they are not.
	RecvCompress() string
}

// taker is asked before bytes of a message are read: for as many as its header tells of, and for more if it becomes
// larger when it is decompressed. An error of it is that of the message.
type taker interface{ take(bytes int) error }

// receive reads the next message of a call into a message, and returns how many bytes of the call it took. The error is
// a *status.BrokenMessageError, a *status.MessageTooLargeError, io.EOF where there is none, that of the connection, or
// that of by, which may be nil.
func receive(from inbound, c codec, into any, limit int, held protect.Handler, by taker) (n int, _ error) {
	broken := func(why string) error { return &status.BrokenMessageError{Want: typeOf(into), Why: why} }
	var header [5]byte // whether it is compressed, and its length
	switch err := from.ReadMessageHeader(header[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, broken("it ends within its header")
	case err != nil:
		return n, err
	}
	// The length is of what comes, compressed or not.
	length := int(binary.BigEndian.Uint32(header[1:]))
	n = len(header)
	if length > limit {
		return n, &status.MessageTooLargeError{Bytes: length, Limit: limit}
	}
	if by != nil {
		if err := by.take(length); err != nil {
			return n, err
		}
	}
	data, err := from.Read(length)
	n += length
	held.Came()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, broken(fmt.Sprintf("it ends before the %d bytes that its header tells of", length))
	case err != nil:
		return n, err
	}
	// Not data.Free() itself: data may be replaced by what is decompressed.
	defer func() { data.Free() }()
	switch header[0] {
	case 0:
	case 1:
		inflated, err := inflate(data, from.RecvCompress(), limit, c.memory)
		if err != nil {
			return n, broken(err.Error())
		}
		data.Free()
		if data = inflated; data.Len() > limit {
			return n, &status.MessageTooLargeError{Limit: limit, Inflated: true}
		}
		if more := data.Len() - length; by != nil && more > 0 {
			if err := by.take(more); err != nil {
				return n, err
			}
		}
	default:
		return n, broken(fmt.Sprintf("its header begins with %d, not 0 or 1", header[0]))
	}
	if err := c.Unmarshal(data, into); err != nil {
		// The library puts spaces that do not break into its errors at random, so that nobody relies on their text.
		return n, broken(strings.ReplaceAll(err.Error(), "\u00a0", " "))
	}
	return n, nil
}

// inflate decompresses a message up to one byte more than the limit, which tells that it is too large. The caller frees
// what it returns.
func inflate(data mem.BufferSlice, how string, limit int, memory mem.BufferPool) (mem.BufferSlice, error) {
	compressor := encoding.GetCompressor(how)
	if compressor == nil {
		return nil, fmt.Errorf("it is compressed, but grpc-encoding is %q", how)
	}
	raw := data.Reader()
	defer raw.Close()
	reader, err := compressor.Decompress(raw)
	if err != nil {
		return nil, fmt.Errorf("it cannot be decompressed by %s: %w", how, err)
	}
	if closer, is := reader.(io.Closer); is {
		defer closer.Close() // it is used again
	}
	taking := inflation{from: reader}
	defer taking.turn.End()
	inflated, err := mem.ReadAll(io.LimitReader(&taking, int64(limit)+1), memory)
	if err != nil {
		inflated.Free()
		return nil, fmt.Errorf("it cannot be decompressed by %s: %w", how, err)
	}
	return inflated, nil
}

// inflation is a message that is decompressed. A large one waits for its turn: a message that takes a thousand times
// its size then takes it once for each processor, however many come at once.
type inflation struct {
	from io.Reader
	came int
	turn protect.Turn
}

// Read implements io.Reader.
func (i *inflation) Read(p []byte) (int, error) {
	const (
		large  = 256 << 10
		inStep = 8 // bytes
	)
	if i.came > large {
		i.turn.Begin()
	}
	n, err := i.from.Read(p)
	i.came += n
	i.turn.Step(n / inStep)
	return n, err
}
