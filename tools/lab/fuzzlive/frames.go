package main

import (
	"github.com/weftserve/weft/internal/hostile"
)

// The types of HTTP/2's frames that are sent by number.
const (
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	frameWindow       = 8
	frameContinuation = 9
	frameUnknown      = 0x20
)

// frames sends some frames that a connection survives.
func (b *batch) frames() {
	for range 1 + b.rng.IntN(8) {
		b.sent++
		stream := b.conn.Next() - min(b.conn.Next()-1, 2*uint32(1+b.rng.IntN(8))) // one that was opened
		switch b.rng.IntN(6) {
		case 0:
			b.conn.Frame(frameWindow, 0, stream, []byte{0, 0, byte(b.rng.Uint32()), 1})
		case 1:
			b.conn.Frame(framePriority, 0, stream, []byte{0, 0, 0, 0, byte(b.rng.Uint32())})
		case 2:
			b.conn.Frame(frameUnknown+byte(b.rng.IntN(200)), byte(b.rng.Uint32()), uint32(b.rng.IntN(99)),
				make([]byte, b.rng.IntN(64)))
		case 3: // a setting that nobody knows
			b.conn.Frame(frameSettings, 0, 0, []byte{0xff, byte(b.rng.Uint32()), 0, 0, 0, 1})
		case 4:
			b.conn.Frame(frameSettings, 1, 0, nil) // confirms ours, once more
		case 5: // how many calls the server may begin, which it never does
			b.conn.Frame(frameSettings, 0, 0, []byte{0, 3, 0, 0, 0, byte(b.rng.Uint32())})
		}
	}
}

// chosen are the header fields whose values a caller chooses; one whose values are read the most is there twice.
var chosen = []string{
	":path", ":authority", ":method", ":scheme", "content-type", "user-agent", "grpc-timeout", "grpc-encoding",
	"grpc-accept-encoding", "te", "x-nasty", "x-nasty-bin", "host", "traceparent", "baggage", "content-length",
	"authorization", "authorization",
}

// headers sends a call with a header block in which one value is chosen to harm, or is missing or there twice.
func (b *batch) headers() error {
	fields := []string{
		":method", "POST", ":scheme", "http", ":path", "/weft.v1.ModelService/ListModels", ":authority", "weft",
		"content-type", "application/grpc", "te", "trailers",
	}
	name := chosen[b.rng.IntN(len(chosen))]
	value := string(hostile.Spoil([]byte(hostile.Text(b.rng))))
	if len(value) > 1<<10 {
		value = value[:[]int{64, 8 << 10}[b.rng.IntN(16)/15]] // headers of more than 16 KiB end the connection
	}
	if b.rng.IntN(2) == 0 {
		value = []string{"1S", "0n", "99999999H", "-1S", "gzip", "identity", "GET", "/a", "/a/b", "", "Zm9v"}[b.rng.IntN(11)]
	}
	if name == "authorization" && b.rng.IntN(4) > 0 {
		mutated := string(hostile.Mutated(b.rng, []byte(unsigned)))
		value = "Bearer " + []string{token, token[1:], unsigned, mutated}[b.rng.IntN(4)]
	}
	is := false
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == name && b.rng.IntN(8) > 0 {
			fields[i+1], is = value, true
			if b.rng.IntN(8) == 0 {
				fields = append(fields[:i:i], fields[i+2:]...)
			}
		}
	}
	if !is {
		fields = append(fields, name, value)
	}
	id := b.conn.Headers(false, fields...)
	b.conn.Expect(id, &sent{what: "a call with " + name, loose: true})
	b.sent += 2
	return b.conn.Message(id, nil, true)
}
