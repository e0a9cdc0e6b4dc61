package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// heard is what came on all connections of a listener.
type heard struct {
	mu      sync.Mutex
	frames  map[string]int // guarded by mu; by type
	bytes   map[uint32]int // guarded by mu; data of a stream, over all connections
	largest int            // guarded by mu; headers of a call, decoded
}

// listen reads connections as a server does, until ctx ends, and gives as much credit as there can be.
func listen(ctx context.Context, t *testing.T) (address string, h *heard) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h = &heard{frames: map[string]int{}, bytes: map[uint32]int{}}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { h.serve(conn) })
		}
	})
	return listener.Addr().String(), h
}

func (h *heard) serve(conn net.Conn) {
	defer conn.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return
	}
	h.note("a byte", 0, 0)
	preface := make([]byte, len(http2.ClientPreface)-1)
	if _, err := io.ReadFull(conn, preface); err != nil || string(first)+string(preface) != http2.ClientPreface {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.AllowIllegalReads = true
	if framer.WriteWindowUpdate(0, 1<<30) != nil {
		return
	}
	size := 0
	decoder := hpack.NewDecoder(4096, func(f hpack.HeaderField) { size += int(f.Size()) })
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		head := frame.Header()
		switch f := frame.(type) {
		case *http2.DataFrame:
			h.note("DATA", head.StreamID, len(f.Data()))
			continue
		case *http2.HeadersFrame:
			size = 0
			_, _ = decoder.Write(f.HeaderBlockFragment())
		case *http2.ContinuationFrame:
			_, _ = decoder.Write(f.HeaderBlockFragment())
		default:
		}
		h.note(head.Type.String(), 0, 0)
		h.mu.Lock()
		h.largest = max(h.largest, size)
		h.mu.Unlock()
	}
}

func (h *heard) note(kind string, stream uint32, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasPrefix(kind, "UNKNOWN") {
		kind = "UNKNOWN"
	}
	h.frames[kind]++
	h.bytes[stream] += size
}

// TestAttacks: each sends what it says, to a server that reads everything and does nothing.
func TestAttacks(t *testing.T) {
	want := map[string][]string{
		"header-bombs": {"HEADERS"}, "unread-answers": {"HEADERS", "DATA"}, "rapid-reset": {"HEADERS", "RST_STREAM"},
		"reset-requests": {"HEADERS", "DATA", "RST_STREAM"}, "unread-stream": {"HEADERS", "DATA"}, "settings": {"SETTINGS"},
		"empty-inputs": {"HEADERS", "DATA"}, "continuation": {"HEADERS", "CONTINUATION"}, "priority": {"PRIORITY"},
		"window-update": {"HEADERS", "WINDOW_UPDATE"}, "empty-frames": {"DATA", "UNKNOWN"},
		"unknown-methods": {"HEADERS", "DATA"}, "gzip-bombs": {"HEADERS", "DATA"}, "idle-connections": {"SETTINGS"},
		"slow-handshakes": {"a byte"}, "ping": {"PING"}, "slow-bodies": {"HEADERS", "DATA"},
		"short-messages": {"HEADERS", "DATA"},
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			address, h := listen(ctx, t)
			a.connections = min(max(a.connections, 3), 3)
			tallied := &tally{}
			c := strikeCommand{Target: address, Connections: 3, Rate: 300, Seed: 1}
			ended := make(chan struct{})
			go func() { c.connect(ctx, &a, tallied); close(ended) }()
			weftest.Until(t, "all that it should send", func() bool { return h.hasAll(want[a.name]) })
			cancel()
			<-ended
			h.mu.Lock()
			largest := h.largest
			h.mu.Unlock()
			if a.name == "header-bombs" && largest < 8<<20 {
				t.Errorf("the headers of a call are %d bytes, want 8 MB", largest)
			}
			if !a.bare && len(tallied.Ends) > 0 {
				t.Errorf("connections ended: %v", tallied.Ends)
			}
		})
	}
}

func (h *heard) hasAll(kinds []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range kinds {
		if h.frames[k] == 0 {
			return false
		}
	}
	return len(kinds) > 0
}

// TestBomb: a megabyte becomes a gigabyte.
func TestBomb(t *testing.T) {
	if testing.Short() {
		t.Skip("it decompresses a gigabyte")
	}
	r, err := gzip.NewReader(bytes.NewReader(bomb()[5:]))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != 1<<30 || len(bomb()) > 2<<20 {
		t.Errorf("%d bytes become %d: %v", len(bomb()), n, err)
	}
}

// TestEmptyInputs: every kind is a message of the largest size that is served, but for a little, and can be read.
func TestEmptyInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads messages of millions of fields")
	}
	for kind := range 5 {
		var out bytes.Buffer
		l := &link{number: kind, tally: &tally{}, ctx: t.Context(), credit: newCredit(), gone: make(chan struct{})}
		l.frames = http2.NewFramer(&out, nil)
		l.headers = hpack.NewEncoder(&l.block)
		l.credit.add(1 << 30)
		do, err := emptyInputs(l)
		if err := errors.Join(err, do(t.Context())); err != nil {
			t.Fatal(err)
		}
		var message []byte
		for framer := http2.NewFramer(io.Discard, &out); ; {
			frame, err := framer.ReadFrame()
			if err != nil {
				break
			}
			if f, is := frame.(*http2.DataFrame); is {
				message = append(message, f.Data()...)
			}
		}
		if len(message) < 15<<20-10 || len(message) > 16<<20 {
			t.Errorf("kind %d has %d bytes", kind, len(message))
		}
		if err := proto.Unmarshal(message[5:], &weftv1.PredictRequest{}); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}
