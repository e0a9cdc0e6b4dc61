package transport

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
)

// taken is a message that keeps its data.
type taken struct{ data mem.BufferSlice }

func (m *taken) Take(data mem.BufferSlice) error {
	m.data = data
	return nil
}

func (*taken) Type() string { return "taken" }

// TestPieces: a message that came in large pieces is left in them, one that came in small ones is joined; both belong
// to the message.
func TestPieces(t *testing.T) {
	for pieces, size := range map[int]int{1: 10, 40: 16 << 10, 2: 2 * leastPiece, 1000: 64, 3: leastPiece - 1} {
		sent := bytes.Repeat([]byte("0123456789"), pieces*size/10+1)[:pieces*size]
		var data mem.BufferSlice
		for at := 0; at < len(sent); at += size {
			data = append(data, mem.Copy(sent[at:at+size], mem.DefaultBufferPool()))
		}
		var m taken
		if err := plain.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		data.Free()
		want := 1
		if size >= leastPiece {
			want = pieces
		}
		if len(m.data) != want || !bytes.Equal(m.data.Materialize(), sent) {
			t.Errorf("%d pieces of %d bytes came as %d, want %d and the same bytes", pieces, size, len(m.data), want)
		}
		m.data.Free()
	}
}
