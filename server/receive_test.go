package server

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// sent is a call whose caller sent these bytes and no more.
type sent struct {
	bytes      []byte
	compressed string
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

func TestReceive(t *testing.T) {
	const want = "the message is not a weft.v1.ModelSpec: "
	const advice = "; send what code generated from this server's .proto files encodes"
	for name, c := range map[string]struct {
		bytes      []byte
		compressed string
		want       string
	}{
		"good":                    {framed(0, []byte{0x0a, 1, 'm'}), "", ""},
		"empty":                   {framed(0, nil), "", ""},
		"none":                    {nil, "", "EOF"},
		"half a header":           {[]byte{0, 0}, "", want + "it ends within its header" + advice},
		"half a message":          {framed(0, []byte("1234"))[:7], "", want + "it ends before the 4 bytes that its header tells of" + advice},
		"another flag":            {framed(7, nil), "", want + "its header begins with 7, not 0 or 1" + advice},
		"compressed, not how":     {framed(1, nil), "", want + `it is compressed, but grpc-encoding is ""` + advice},
		"not compressed so":       {framed(1, []byte("plain")), gzip.Name, want + "it cannot be decompressed by gzip: unexpected EOF" + advice},
		"too large":               {framed(0, make([]byte, 101)), "", "the message takes 101 bytes, of at most 100; send fewer rows at a time, or raise --max-message-bytes"},
		"too large by its header": {framed(0, make([]byte, 101))[:5], "", "the message takes 101 bytes, of at most 100; send fewer rows at a time, or raise --max-message-bytes"},
		"no message":              {framed(0, []byte{0xff}), "", want + "proto: cannot parse invalid wire-format data" + advice},
	} {
		got := ""
		if err := receive(&sent{c.bytes, c.compressed}, &weftv1.ModelSpec{}, 100); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// FuzzReceive: whatever comes, it is read as protobuf reads it, or refused as broken or too large, and nothing beyond the limit is read.
func FuzzReceive(f *testing.F) {
	whole, err := proto.Marshal(&weftv1.ModelSpec{Name: "policy"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(0, whole), false)
	f.Add(framed(1, whole), true)
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, bytes []byte, compressed bool) {
		from, got := &sent{bytes: bytes}, &weftv1.ModelSpec{}
		if compressed {
			from.compressed = gzip.Name
		}
		err := receive(from, got, 64)
		_, broken := errors.AsType[*brokenMessageError](err)
		_, large := errors.AsType[*messageTooLargeError](err)
		switch {
		case err != nil && !broken && !large && !(errors.Is(err, io.EOF) && len(bytes) == 0):
			t.Errorf("the error is a %T: %v", err, err)
		case err == nil && bytes[0] == 0:
			want := &weftv1.ModelSpec{}
			if err := proto.Unmarshal(bytes[5:5+binary.BigEndian.Uint32(bytes[1:])], want); err != nil || !proto.Equal(want, got) {
				t.Errorf("read %v, want %v, %v", got, want, err)
			}
		}
	})
}
