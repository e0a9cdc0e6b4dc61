package hostile

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// window is the largest that HTTP/2 has, so that the server never waits for the caller. initial is that of RFC 9113
	// (6.9.2), and frameSize the largest frame that every server takes.
	window    = 1<<31 - 1 // of what the server may send, in bytes
	initial   = 65535     // of both windows of a connection before anybody says otherwise
	frameSize = 16 << 10
)

// Conn is an HTTP/2 connection of a caller that sends what it is told to, legal or not. Only one goroutine may send on
// it; a second one reads. Sending follows the window of the connection, but not those of streams.
type Conn struct {
	conn    net.Conn
	out     *bufio.Writer
	framer  *http2.Framer // writes; it reads in the reader only
	block   headerBlock
	next    uint32
	ended   chan struct{} // closed once nothing more can be read
	patient time.Duration

	// What the reader has learnt of the server, and what the sender waits for.
	mu     sync.Mutex
	change sync.Cond          // of what follows
	calls  map[uint32]*Answer // guarded by mu, as is the rest: calls that were sent whole and have not ended
	credit int64              // bytes that the server takes
	acked  bool               // the latest ping was answered
	goAway string             // what the server said of the end
	done   func(*Answer)
	closed bool
	fault  string // why nothing more could be read
	// statuses are those with which whole calls ended
	statuses map[string]bool
}

// Answer is how a call ended.
type Answer struct {
	Note    any // of the caller
	Status  string
	Message string // percent-encoded, as it came
	Details []byte // base64, as they came
	Header  string // the fields that came, as text
	Data    []byte // the messages, framed
	Reset   string // the error of the frame that ended the call; "" for none
}

// Dial connects to a server without TLS. done is called for each whole call that ends, one at a time, with the lock of
// the connection held: it must not call the connection. patient is how long an answer may take.
func Dial(ctx context.Context, address string, patient time.Duration, done func(*Answer)) (*Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		conn: conn, out: bufio.NewWriterSize(conn, 64<<10), next: 1, ended: make(chan struct{}), patient: patient,
		calls: map[uint32]*Answer{}, statuses: map[string]bool{}, credit: initial, done: done,
	}
	c.change.L = &c.mu
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 64<<10))
	// The framer must not refuse what the server is to refuse.
	c.framer.AllowIllegalWrites = true
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.block.reset()
	_, _ = c.out.WriteString(http2.ClientPreface)
	_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	_ = c.framer.WriteWindowUpdate(0, window-initial)
	if err := c.out.Flush(); err != nil { // now, for a server waits for them only so long
		return nil, errors.Join(err, conn.Close())
	}
	go c.read()
	return c, nil
}

// Close closes the connection, and returns when nothing more is read.
func (c *Conn) Close() {
	_ = c.conn.Close() // the reader learns of it
	<-c.ended
}

// GoAway returns what the server said when it ended the connection.
func (c *Conn) GoAway() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goAway
}

// End returns why the connection has ended, or "" while it goes on.
func (c *Conn) End() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		return ""
	}
	return cmp.Or(c.goAway, "closed without a word: "+c.fault)
}

// Answered reports whether any whole call has ended with that gRPC status.
func (c *Conn) Answered(status string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statuses[status]
}

// Next returns the stream that the next call will have.
func (c *Conn) Next() uint32 { return c.next }

// Flush sends what was not sent yet.
func (c *Conn) Flush() error { return c.out.Flush() }

// Headers opens a call with these header fields ("name", "value", ...), in as many frames as they need, and returns its
// stream. Like all that sends, it buffers: Flush, Settle or a full window send it.
func (c *Conn) Headers(end bool, fields ...string) uint32 {
	id := c.next
	c.next += 2
	block := c.block.encode(fields)
	for first := true; first || len(block) > 0; first = false {
		// What does not fit into one frame follows in CONTINUATION frames.
		part := block[:min(len(block), frameSize)]
		block = block[len(part):]
		if first {
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: id, BlockFragment: part, EndStream: end, EndHeaders: len(block) == 0,
			})
		} else {
			_ = c.framer.WriteContinuation(id, len(block) == 0, part)
		}
	}
	return id
}

// Message sends a message, framed as gRPC does.
func (c *Conn) Message(stream uint32, data []byte, end bool) error {
	// A flag that says it is not compressed, and the length.
	framed := make([]byte, 5, 5+len(data))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(data)))
	return c.Data(stream, append(framed, data...), end)
}

// Data sends bytes of a call in frames, each when the server has room for it. Empty data is one empty frame.
func (c *Conn) Data(stream uint32, data []byte, end bool) error {
	for {
		part := data[:min(len(data), frameSize)]
		// The server may have ended the connection, which spend takes for room: the write then fails.
		if err := c.spend(int64(len(part))); err != nil {
			return err
		}
		data = data[len(part):]
		if err := c.framer.WriteData(stream, end && len(data) == 0, part); err != nil {
			return err
		}
		if len(data) == 0 {
			return nil
		}
	}
}

// Raw sends bytes as they are, which need not be frames.
func (c *Conn) Raw(data []byte) { _, _ = c.out.Write(data) }

// Frame sends a frame of any type with any payload.
func (c *Conn) Frame(kind, flags uint8, stream uint32, payload []byte) {
	_ = c.framer.WriteRawFrame(http2.FrameType(kind), http2.Flags(flags), stream, payload)
}

// Expect says that a call was sent whole, so that it must end. The note comes back with the answer. Calls that were not
// announced so are not waited for, and their answers are dropped.
func (c *Conn) Expect(stream uint32, note any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls[stream] = &Answer{Note: note}
	}
}

// Settle sends what is buffered, and returns when all whole calls have ended and the server has read everything, or
// when the connection has ended. A ping behind all else shows what the server has read. The error says what did not
// come in time.
func (c *Conn) Settle() error {
	c.mu.Lock()
	c.acked = false
	c.mu.Unlock()
	_ = c.framer.WritePing(false, [8]byte{1})
	if c.out.Flush() != nil {
		return nil //nolint:nilerr // the server has ended the connection, which End tells of
	}
	return c.await(func() bool { return c.acked && len(c.calls) == 0 })
}

// spend takes room for so many bytes of the connection's window, and waits until there is. It flushes first: the server
// gives room only for what it has received.
func (c *Conn) spend(n int64) error {
	c.mu.Lock()
	room := c.credit >= n
	if room {
		c.credit -= n
	}
	c.mu.Unlock()
	if room {
		return nil
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	return c.await(func() bool {
		if c.credit < n {
			return false
		}
		c.credit -= n
		return true
	})
}

// errLate says that the server did not answer within the patience.
var errLate = errors.New("the server did not answer")

// await waits until a condition holds, or the connection has ended. It calls the condition with the lock held.
func (c *Conn) await(holds func() bool) error {
	// The condition variable has no timeout, so that a timer wakes it.
	late := false
	timer := time.AfterFunc(c.patient, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		late = true
		c.change.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && !holds() {
		if late {
			for id, a := range c.calls {
				return fmt.Errorf("%w within %v: %d calls are open, such as stream %d: %v", errLate, c.patient,
					len(c.calls), id, a.Note)
			}
			return fmt.Errorf("%w a ping within %v", errLate, c.patient)
		}
		c.change.Wait()
	}
	return nil
}
