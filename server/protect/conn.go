package protect

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
)

// accepted is a connection as it was accepted, with an account. TLS and gRPC are above it: it sees no frames.
type accepted struct {
	net.Conn

	account *account
}

// NetConn returns the connection that was accepted.
func (c *accepted) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn. It ends the account first, so that nothing counts for a connection that is closed.
func (c *accepted) Close() error {
	c.account.of.close(c.account)
	return c.Conn.Close()
}

// SetDeadline implements net.Conn. gRPC sets one for the handshake, and takes it back: that of a connection which was
// ended meanwhile stays.
func (c *accepted) SetDeadline(t time.Time) error {
	if c.account.ending.Load() {
		t = past
	}
	return c.Conn.SetDeadline(t)
}

// errEnded is what a server reads from a connection that was ended.
var errEnded = errors.New("the connection exceeded a limit and was ended")

// explain says to a peer why its connection is ended, and what to do.
func explain(why Reason) string {
	return "weft: " + [...]string{
		"the headers of a call came in too many pieces, or too slowly; send fewer",
		"too many frames that ask for nothing (settings, pings, priorities, window updates, tiny or unknown frames); " +
			"send fewer",
		"too many calls were reset before they were answered; allow them more time, or begin fewer",
		"a request stood still while it was sent; send it at once",
		"an answer was not read; read answers, or cancel calls",
		"the connections of this server hold too much, and this one the most; have fewer calls open, or raise " +
			"--max-held-bytes",
		"too many calls were refused for reasons that their caller could have known; read their errors, and make fewer",
	}[why]
}

// framed is a connection whose frames are seen as they pass, in both directions. Reading is held by the goroutine that
// reads, writing by the one that writes.
type framed struct {
	net.Conn // secured

	account *account
	raw     *accepted
	ready   ready // reads, where it can, without memory for what has not come
	in      scanner
	few     [512]byte  // takes what comes first where ready is nil
	reading sync.Mutex // one reads: the server, or Close
	flows   bool       // the latest read filled few
	whole   whole      // memory for what is read
	early   []byte     // was read by greet, and not by the server yet

	writing sync.Mutex
	out     scanner                // guarded by writing
	words   atomic.Pointer[[]byte] // to be written between two frames

	last atomic.Pointer[farewell]
	bye  sync.Once
}

// ready is implemented by connections that take memory only for what has come; gRPC asks for it.
type ready interface {
	ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
}

// frame returns the connection that the server reads and writes once it was secured.
func frame(secured net.Conn, raw *accepted) *framed {
	f := &framed{Conn: secured, account: raw.account, raw: raw, in: scanner{left: prefaceBytes}}
	if secured == net.Conn(raw) {
		f.ready, _ = raw.Conn.(ready)
	}
	raw.account.mu.Lock()
	defer raw.account.mu.Unlock()
	raw.account.framed = f
	return f
}

// Read implements net.Conn.
func (f *framed) Read(b []byte) (int, error) {
	if len(f.early) > 0 {
		n := copy(b, f.early)
		f.early = f.early[n:]
		return f.passed(b, n, nil)
	}
	n, err := f.read(b[:f.size(len(b))])
	return f.passed(b, n, err)
}

// methods are how requests of HTTP/1 begin, as many bytes as greet reads.
var methods = []string{"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI"}

var errHTTP1 = errors.New("the peer speaks HTTP/1")

// greet looks at how the peer begins. One that speaks HTTP/1 is told where that is spoken: gRPC begins with frames,
// which such a peer takes for an answer that it cannot show.
func (f *framed) greet(pages string) error {
	early := make([]byte, len(methods[0]))
	f.reading.Lock()
	_, err := io.ReadFull(f.Conn, early)
	f.reading.Unlock()
	if err != nil {
		return err
	}
	if f.early = early; !slices.Contains(methods, string(early)) {
		return nil
	}
	text := "This address speaks gRPC only; HTTP and JSON are at " + pages + ".\n"
	if pages == "" {
		text = "This address speaks gRPC only; HTTP and JSON need --http.\n"
	}
	_, err = fmt.Fprintf(f.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(text), text)
	// It would be reset, and might not get to read that, if it were closed with bytes unread.
	half, can := f.raw.Conn.(interface{ CloseWrite() error })
	if err == nil && can && half.CloseWrite() == nil && f.SetReadDeadline(time.Now().Add(linger)) == nil {
		_, _ = io.CopyN(io.Discard, f.Conn, lingerBytes)
	}
	return errHTTP1
}

// read reads for the server. Once the connection was ended, only Close reads. It holds reading for as long as nothing
// comes: Close sets a deadline that has passed before it waits for that.
func (f *framed) read(b []byte) (int, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.account.ending.Load() {
		return 0, errEnded
	}
	return f.Conn.Read(b)
}

// readOnReady is read for connections that take memory themselves.
func (f *framed) readOnReady(size int) (*[]byte, int, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.account.ending.Load() {
		return nil, 0, errEnded
	}
	return f.ready.ReadOnReady(size, &f.whole)
}

// size returns how many bytes may be read at once, of so many: the rest of a frame begins no call.
func (f *framed) size(most int) int {
	if n := int(f.account.atOnce.Load()); n > 0 {
		return min(f.in.left+n, most)
	}
	return most
}

// ReadOnReady reads up to size bytes into memory of the pool, which is taken only once there are bytes. Where the
// connection cannot do that, as with TLS, what comes first is read into few and copied; while few is filled by each
// read data flow, and memory is taken at once.
func (f *framed) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	f.whole = whole{pool, size}
	size = f.size(size)
	var b *[]byte
	var n int
	var err error
	switch {
	case f.ready != nil:
		b, n, err = f.readOnReady(size)
	case f.flows:
		b = f.whole.Get(size)
		n, err = f.read(*b)
		f.flows = n >= len(f.few)
	default:
		if n, err = f.read(f.few[:min(size, len(f.few))]); n > 0 {
			b = f.whole.Get(size)
			copy(*b, f.few[:n])
			f.flows = n == len(f.few)
		}
	}
	if n > 0 {
		n, err = f.passed(*b, n, err)
	}
	if n == 0 && b != nil {
		pool.Put(b)
		b = nil
	}
	return b, n, f.fault(err)
}

// whole takes memory of one size from a pool, however much of it is to be filled: gRPC's pool takes back what it gets,
// and would have memory that is too small for others.
type whole struct {
	mem.BufferPool

	size int
}

// Get implements mem.BufferPool.
func (w *whole) Get(size int) *[]byte {
	b := w.BufferPool.Get(w.size)
	*b = (*b)[:size]
	return b
}

// passed takes note of what was read. It returns nothing and an error if that exceeds a limit. It sleeps where the
// peer's frames are to be read late: the goroutine that reads is the connection's own.
func (f *framed) passed(b []byte, n int, err error) (int, error) {
	if n > 0 {
		if wait := f.account.received(&f.in, b[:n]); wait > 0 {
			time.Sleep(wait)
			if gone(f.raw.Conn) { // nobody waits for what is still to be read
				return 0, io.EOF
			}
		}
	}
	if f.account.ending.Load() {
		return 0, errEnded
	}
	return n, err
}

// fault returns the error that the server reads: one that means that the connection was ended, where it was.
func (f *framed) fault(err error) error {
	if err != nil && f.account.ending.Load() {
		return errEnded
	}
	return err
}

// Write implements net.Conn.
func (f *framed) Write(b []byte) (int, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	n, err := f.Conn.Write(b)
	f.account.sent(&f.out, b[:n])
	if err == nil {
		err = f.speak()
	}
	return n, f.fault(err)
}

// say has a frame written between two others. It does not wait for a goroutine that writes: that one writes the frame
// itself. A later frame takes the place of one that was not written yet.
func (f *framed) say(frame []byte) {
	f.words.Store(&frame)
	for f.words.Load() != nil && f.writing.TryLock() { // else the goroutine that writes now does it
		err, later := f.speak(), !f.out.between()
		f.writing.Unlock()
		if err != nil || later { // the next write fails as well, or says it
			return
		}
	}
}

// speak writes what is to be said if that may be now. The caller holds writing. It waits for the peer no longer than
// linger.
func (f *framed) speak() error {
	if !f.out.between() {
		return nil
	}
	words := f.words.Swap(nil)
	if words == nil {
		return nil
	}
	if err := f.Conn.SetWriteDeadline(time.Now().Add(linger)); err != nil {
		return err
	}
	if _, err := f.Conn.Write(*words); err != nil {
		return fmt.Errorf("the peer does not read: %w", err)
	}
	if f.account.ending.Load() {
		return errEnded // nothing else is written
	}
	return f.Conn.SetWriteDeadline(time.Time{})
}

// farewell is what a connection ends with.
type farewell struct {
	last uint32 // stream
	why  Reason
}

// goodbye tells the peer why its connection is ended, once.
func (f *framed) goodbye() {
	f.bye.Do(func() {
		if l := f.last.Load(); l != nil {
			f.say(goAway(l.last, enhanceYourCalm, explain(l.why)))
		}
	})
}

// end tells the peer why, and has the server close the connection.
func (f *framed) end() {
	f.goodbye()
	for began := time.Now(); f.words.Load() != nil && time.Since(began) < linger; {
		time.Sleep(linger / 100) // the goroutine that writes now says it
	}
	_ = f.Conn.SetDeadline(past) // a goroutine that reads or writes now stops
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Close implements net.Conn. Of a connection that was ended, what the peer sends is taken for a moment: it would not
// get to read why if the connection were closed with bytes unread, since it is reset then.
func (f *framed) Close() error {
	half, can := f.raw.Conn.(interface{ CloseWrite() error })
	if !f.account.ending.Load() || !can {
		return f.Conn.Close()
	}
	f.account.of.close(f.account)
	go func() {
		defer f.raw.Close()
		f.goodbye()
		_ = f.Conn.SetReadDeadline(past) // a goroutine that reads now stops
		f.reading.Lock()
		defer f.reading.Unlock()
		if half.CloseWrite() == nil && f.raw.SetReadDeadline(time.Now().Add(linger)) == nil {
			var b [512]byte // thousands may be closed at a time
			for n, err := 0, error(nil); n < lingerBytes && err == nil; {
				var more int
				more, err = f.raw.Read(b[:])
				n += more
			}
		}
	}()
	return nil
}
