package transport

import (
	"bytes"
	compress "compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
)

// plain is a codec with memory of its own.
var plain = newCodec(mem.NopBufferPool{})

// sent is a call whose caller sent these bytes and no more.
type sent struct {
	bytes      []byte
	compressed string
	asked      int // the most bytes that were to be read at once
}

func (s *sent) ReadMessageHeader(header []byte) error {
	if len(s.bytes) == 0 {
		return io.EOF
	}
	if len(s.bytes) < len(header) {
		return io.ErrUnexpectedEOF
	}
	s.bytes = s.bytes[copy(header, s.bytes):]
	return nil
}

func (s *sent) Read(n int) (mem.BufferSlice, error) {
	s.asked = max(s.asked, n)
	if n > 0 && len(s.bytes) == 0 {
		return nil, io.EOF
	}
	if len(s.bytes) < n {
		return nil, io.ErrUnexpectedEOF
	}
	data := mem.BufferSlice{mem.SliceBuffer(s.bytes[:n])}
	s.bytes = s.bytes[n:]
	return data, nil
}

func (s *sent) RecvCompress() string { return s.compressed }

func (s *sent) ContentSubtype() string { return "" }

// framed is a message with its header.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// zipped compresses a message.
func zipped(message []byte) []byte {
	var b bytes.Buffer
	w := compress.NewWriter(&b)
	_, err := w.Write(message)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// named returns a message of so many bytes.
func named(size int) []byte {
	return append([]byte{0x0a, byte(size - 2)}, bytes.Repeat([]byte("m"), size-2)...)
}

func TestReceive(t *testing.T) {
	const want = "the message is not a weft.v1.ModelSpec: "
	const advice = "; send what code generated from this server's .proto files encodes"
	for name, c := range map[string]struct {
		bytes      []byte
		compressed string
		want       string
	}{
		"good":               {framed(0, []byte{0x0a, 1, 'm'}), "", ""},
		"empty":              {framed(0, nil), "", ""},
		"as large as may be": {framed(0, named(100)), "", ""},
		"compressed":         {framed(1, zipped(named(100))), gzip.Name, ""},
		"too large decompressed": {framed(1, zipped(named(101))), gzip.Name, "the message takes more than 100 bytes " +
			"when it is decompressed, which is the most; send fewer rows at a time, or raise --max-message-bytes"},
		"cut short inside": {
			framed(1, zipped(named(100))[:20]), gzip.Name,
			want + "it cannot be decompressed by gzip: unexpected EOF" + advice,
		},
		"a header alone": {
			framed(0, []byte("1234"))[:5],
			"", want + "it ends before the 4 bytes that its header tells of" + advice,
		},
		"none":          {nil, "", "EOF"},
		"half a header": {[]byte{0, 0}, "", want + "it ends within its header" + advice},
		"half a message": {
			framed(0, []byte("1234"))[:7],
			"", want + "it ends before the 4 bytes that its header tells of" + advice,
		},
		"another flag":        {framed(7, nil), "", want + "its header begins with 7, not 0 or 1" + advice},
		"compressed, not how": {framed(1, nil), "", want + `it is compressed, but grpc-encoding is ""` + advice},
		"not compressed so": {
			framed(1, []byte("plain")), gzip.Name,
			want + "it cannot be decompressed by gzip: unexpected EOF" + advice,
		},
		"too large": {
			framed(0, make([]byte, 101)), "",
			"the message takes 101 bytes, of at most 100; send fewer rows at a time, or raise --max-message-bytes",
		},
		"too large by its header": {
			framed(0, make([]byte, 101))[:5], "",
			"the message takes 101 bytes, of at most 100; send fewer rows at a time, or raise --max-message-bytes",
		},
		"no message": {framed(0, []byte{0xff}), "", want + "proto: cannot parse invalid wire-format data" + advice},
	} {
		got := ""
		from := &sent{bytes: c.bytes, compressed: c.compressed}
		_, err := receive(from, plain, &weftv1.ModelSpec{}, 100, protect.Handler{}, nil)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// FuzzReceive: every message is read as protobuf reads it, or refused as broken or too large, and nothing beyond the
// limit is read.
func FuzzReceive(f *testing.F) {
	const limit = 64
	whole, err := proto.Marshal(&weftv1.ModelSpec{Name: "policy"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(0, whole), false)
	f.Add(framed(1, whole), true)
	f.Add(framed(1, zipped(whole)), true)
	f.Add(framed(1, zipped(whole)), false)
	f.Add(framed(1, zipped(whole)[:20]), true)
	for _, size := range []int{limit, limit + 1} {
		f.Add(framed(0, named(size)), false)
		f.Add(framed(1, zipped(named(size))), true)
	}
	f.Add(framed(1, whole), false)
	f.Add(framed(0, whole)[:7], false)
	f.Add(framed(0, whole)[:5], false)
	f.Add(framed(2, whole), true)
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, bytes []byte, compressed bool) {
		from, got := &sent{bytes: bytes}, &weftv1.ModelSpec{}
		if compressed {
			from.compressed = gzip.Name
		}
		_, err := receive(from, plain, got, limit, protect.Handler{}, nil)
		want, what := understood(bytes, compressed, limit)
		is := ""
		if _, broken := errors.AsType[*status.BrokenMessageError](err); broken {
			is = "broken"
		} else if _, large := errors.AsType[*status.MessageTooLargeError](err); large {
			is = "too large"
		} else if err != nil {
			is = err.Error()
		}
		if is != what || what == "" && !proto.Equal(want, got) {
			t.Errorf("read %v, which is %q (%v), want %v, which is %q", got, is, err, want, what)
		}
		if from.asked > limit {
			t.Errorf("%d bytes were to be read, with a limit of %d", from.asked, limit)
		}
	})
}

// understood reads a message in the plainest way, and returns it or its fault.
func understood(sent []byte, compressed bool, limit int) (*weftv1.ModelSpec, string) {
	if len(sent) == 0 {
		return nil, "EOF"
	}
	if len(sent) < 5 {
		return nil, "broken"
	}
	flag, length, rest := sent[0], uint64(binary.BigEndian.Uint32(sent[1:])), sent[5:]
	if length > uint64(limit) {
		return nil, "too large"
	}
	if uint64(len(rest)) < length || flag > 1 || flag == 1 && !compressed {
		return nil, "broken"
	}
	if rest = rest[:length]; flag == 1 {
		r, err := compress.NewReader(bytes.NewReader(rest))
		if err == nil {
			rest, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
		}
		if err != nil {
			return nil, "broken"
		}
		if len(rest) > limit {
			return nil, "too large"
		}
	}
	m := &weftv1.ModelSpec{}
	if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(rest, m) != nil {
		return nil, "broken"
	}
	return m, ""
}
