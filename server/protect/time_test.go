package protect

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// pair is the two ends of a connection whose server is the test.
type pair struct {
	*raw

	guard *Connections
	conn  net.Conn // the server's
	to    *account
}

func connect(t *testing.T, g *Connections) *pair {
	t.Helper()
	theirs, ours := net.Pipe()
	t.Cleanup(func() {
		theirs.Close()
		ours.Close()
	})
	a := g.open(ours, false)
	f := frame(a, a)
	go func() { _, _ = io.Copy(io.Discard, f) }()
	r := &raw{Framer: http2.NewFramer(theirs, theirs), Conn: theirs, t: t, next: 1}
	return &pair{r, g, f, f.account}
}

// watched is how long connections are watched.
const watched = time.Hour

// TestStandsStill: a request or an answer that stands still ends its connection after a while; what goes on, however
// slowly, and what waits for nothing, does not.
func TestStandsStill(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*pair)
		after time.Duration // 0: it stays
		why   Reason
	}{
		"nothing":                    {do: func(*pair) {}},
		"a stream that says nothing": {do: func(p *pair) { p.open(false) }},
		"a request that never comes": {func(p *pair) { p.open(true) }, patience, SlowRequest},
		"a message of a stream": {func(p *pair) {
			p.open(false)
			p.must(p.WriteData(1, false, make([]byte, 1000)))
		}, patience, SlowRequest},
		"a byte a second": {func(p *pair) {
			p.open(true)
			p.eachSecond(func() { p.must(p.WriteData(1, false, []byte{0})) })
		}, patience, SlowRequest},
		"a kilobyte a second": {do: func(p *pair) {
			p.open(true)
			p.eachSecond(func() { p.must(p.WriteData(1, false, make([]byte, 1000))) })
		}},
		"a message that waits for the server": {do: func(p *pair) {
			p.open(false).Read(0)
			p.must(p.WriteData(1, false, make([]byte, 1000)))
		}},
		"headers": {func(p *pair) {
			p.must(writePreface(p))
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}}))
		}, patience, Headers},
		"an answer": {func(p *pair) { p.open(false).Answers(1 << 20) }, patience, UnreadAnswer},
		"an answer of which a byte is read now and then": {func(p *pair) {
			p.open(false).Answers(1 << 20)
			p.eachSecond(func() { p.writes(1) })
		}, patience, UnreadAnswer},
		"an answer that is read slowly": {do: func(p *pair) {
			p.open(false).Answers(3600 << 10)
			p.eachSecond(func() { p.writes(1 << 10) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New(Config{Logger: slog.New(slog.DiscardHandler)})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go g.Watch(ctx)
				p := connect(t, g)
				began := time.Now()
				go c.do(p)
				for time.Since(began) < watched && g.Stats().Ended == [reasons]uint64{} {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				ended := g.Stats().Ended
				switch took := time.Since(began); {
				case c.after == 0 && ended != [reasons]uint64{}:
					t.Errorf("ended after %v: %v", took, ended)
				case c.after > 0 && (ended[c.why] != 1 || took < c.after || took > c.after+3*lookEvery):
					t.Errorf("ended after %v: %v, want one by %v after %v", took, ended, c.why, c.after)
				}
				p.Conn.Close()
				p.conn.Close()
				time.Sleep(2 * linger)
			})
		})
	}
}

// open begins a call whose handler waits for its message.
func (p *pair) open(must bool) Handler {
	p.must(writePreface(p))
	p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: true}))
	synctest.Wait()
	p.to.mu.Lock()
	h := Handler{account: p.to, stream: p.to.streams[1]}
	p.to.mu.Unlock()
	h.Reads(must)
	return h
}

func writePreface(p *pair) error {
	_, err := io.WriteString(p.Conn, http2.ClientPreface)
	return err
}

// eachSecond does something for as long as is watched, unless the connection is ended before.
func (p *pair) eachSecond(do func()) {
	for range watched / time.Second {
		if p.to.ending.Load() {
			return
		}
		do()
		time.Sleep(time.Second)
	}
}

// writes has the server write so many bytes of the answer.
func (p *pair) writes(n int) {
	go func() { _, _ = io.CopyN(io.Discard, p.Conn, int64(headBytes+n)) }()
	b := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), frameData, 0, 0, 0, 0, 1}, make([]byte, n)...)
	_, _ = p.conn.Write(b)
}
