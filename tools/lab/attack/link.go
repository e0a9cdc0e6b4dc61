package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// link is one connection of the attacker.
type link struct {
	conn   net.Conn
	number int
	random *rand.Rand
	tally  *tally
	ctx    context.Context //nolint:containedctx // a connection is as short as a call

	out     *bufio.Writer
	frames  *http2.Framer // its reading half belongs to the reader
	block   bytes.Buffer
	headers *hpack.Encoder // into block
	latest  uint32         // stream; 0: none yet

	credit *credit
	gone   chan struct{} // closed when the reader has ended
}

var errGone = errors.New("the server ended the connection")

func newLink(ctx context.Context, conn net.Conn, number int, seed uint64, t *tally) *link {
	l := &link{
		conn: conn, number: number, random: rand.New(rand.NewPCG(seed, uint64(number))), tally: t, ctx: ctx,
		out: bufio.NewWriterSize(conn, 16<<10), credit: newCredit(), gone: make(chan struct{}),
	}
	l.frames = http2.NewFramer(l.out, conn)
	l.frames.AllowIllegalWrites = true
	l.headers = hpack.NewEncoder(&l.block)
	return l
}

// hello says what every client says first. window is that of an attack.
func (l *link) hello(window int) error {
	if window < 0 {
		window = math.MaxInt32
	}
	_, err := l.out.WriteString(http2.ClientPreface)
	return errors.Join(err,
		l.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(window)}),
		l.frames.WriteSettingsAck(),
		l.frames.WriteWindowUpdate(0, math.MaxInt32-1<<16), // the connection has 64 KB less a byte already
		l.out.Flush())
}

// call opens a call of a method, and returns its stream.
func (l *link) call(method string, more ...hpack.HeaderField) (uint32, error) {
	l.next()
	return l.latest, l.frames.WriteHeaders(http2.HeadersFrameParam{
		StreamID: l.latest, BlockFragment: l.head(method, more...), EndHeaders: true,
	})
}

// next is the stream of the next call: odd, as those of all clients.
func (l *link) next() { l.latest = (l.latest + 1) | 1 }

// head encodes the headers of a call.
func (l *link) head(method string, more ...hpack.HeaderField) []byte {
	l.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "weft"},
		{Name: "te", Value: "trailers"},
		{Name: "content-type", Value: "application/grpc"},
	}, more...) {
		_ = l.headers.WriteField(f) // into memory
	}
	return l.block.Bytes()
}

// send sends bytes on a stream, as the server lets it.
func (l *link) send(stream uint32, data []byte, end bool) error {
	const most = 16 << 10 // of a frame, unless a server says otherwise
	for {
		n := min(len(data), most)
		if !l.credit.take(n, l.gone, l.ctx.Done()) {
			return errGone
		}
		if err := l.frames.WriteData(stream, end && n == len(data), data[:n]); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}

// repeat has an operation done at a rate, a number of times at most, and holds the connection until the context ends.
// The error says why the connection ended before.
func (l *link) repeat(ctx context.Context, rate float64, most int, do operation) error {
	const tick = 10 * time.Millisecond
	beats := time.NewTicker(tick)
	defer beats.Stop()
	began := time.Now()
	for done := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-l.gone:
			return errGone
		case <-beats.C:
		}
		due := int(rate*time.Since(began).Seconds()) + 1 - done
		if most > 0 {
			due = min(due, most-done)
		}
		for range min(due, int(rate/10)+1) { // one who was held up does not make up for all of it at once
			if err := do(ctx); err != nil {
				return err
			}
			done++
			l.tally.done.Add(1)
		}
		if err := l.out.Flush(); err != nil {
			return err
		}
	}
}
