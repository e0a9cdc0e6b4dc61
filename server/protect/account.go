package protect

import (
	"sync"
	"sync/atomic"
	"time"
)

// account is what is held for one connection, and what it did. Its mu is taken after framed.writing, never before.
type account struct {
	of     *Connections
	conn   *accepted
	held   atomic.Int64 // bytes
	began  time.Time
	moved  atomic.Int64 // when a call made progress last, in nanoseconds since 1970; 0: none did
	ending atomic.Bool  // nothing is held any more as far as Connections are concerned
	// How many bytes may be read at once; 0: any number.
	atOnce atomic.Int32
	// arrivals tells when the kernel received what was read last, as stamp has it; nil: it does not.
	arrivals interface{ latest() int64 }
	kept     any          // by Credentials
	told     atomic.Value // what Handler.News was asked about last
	kinds    kinds

	mu      sync.Mutex
	framed  *framed            // guarded by mu; nil before the handshake
	shaken  bool               // guarded by mu; the handshake is over, or never will be
	streams map[uint32]*stream // guarded by mu; that are open
	last    uint32             // guarded by mu; the newest
	idle    bucket             // guarded by mu
	resets  bucket             // guarded by mu
	refused bucket             // guarded by mu
	excused int                // guarded by mu; calls that are being refused, and do not count
	flowed  time.Time          // guarded by mu; when data of a call came or went last, but for tiny ones
	retired time.Time          // guarded by mu; when it was asked to go; zero: it was not
	retires Reason             // guarded by mu; why
	block   uint32             // guarded by mu; the stream whose headers are not complete; 0: there is none
	pieces  int                // guarded by mu; that continued it
	blockAt time.Time          // guarded by mu; when they began
	bulk    int                // guarded by mu; bytes of large messages that came with the latest read
}

// stream is a call. Guarded by the mu of its account.
type stream struct {
	in, out  int  // bytes that no handler has read yet, and of answers that were not written yet
	reads    bool // the handler waits for a message
	answered bool // a part of an answer was written
	closed   bool // it has ended, and is among those of its account no more
	excused  bool // that it ends without one is not its caller's doing
	// When what is under way moved last; zero: nothing is.
	inAt, outAt time.Time
}

// hold counts bytes that are held, or are not any more. The caller holds mu, or is the only one that knows the account,
// and sees to it that relieve is called when it has given mu back.
func (a *account) hold(bytes int64) {
	if !a.ending.Load() {
		a.held.Add(bytes)
		a.of.held.Add(bytes)
	}
}

// dissolve ends the account: nothing is held, but for a moment by handlers that still run. It reports whether this call
// ended it. From then on hold does nothing, so that the sums of all connections stay right.
func (a *account) dissolve() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending.Swap(true) {
		return false
	}
	a.of.held.Add(-a.held.Load())
	a.of.count.Add(-1)
	return true
}

// end ends the connection. It does not wait for the peer: another goroutine says why, and has the server close it. The
// caller holds no lock of the account.
func (a *account) end(why Reason) {
	if !a.dissolve() {
		return
	}
	a.mu.Lock()
	f, last, told := a.framed, a.last, !a.retired.IsZero()
	a.mu.Unlock()
	// One that was asked to go was told of then.
	if !told {
		a.of.tell(a, why)
	}
	if f == nil {
		_ = a.conn.Close() // its handshake fails
		return
	}
	f.last.Store(&farewell{last, why})
	go f.end()
}

// shake notes that the handshake is over, or never will be. The caller holds mu.
func (a *account) shake() {
	if !a.shaken {
		a.shaken = true
		a.of.pending.Add(-1)
	}
}

// rests reports whether no call has made progress lately.
func (a *account) rests(now time.Time) bool { return a.over(time.Unix(0, a.moved.Load()), now, lately) }

// over reports whether this process had more time than that from then until now: without it, nothing moves, and no
// caller is to blame.
func (a *account) over(then, now time.Time, patience time.Duration) bool {
	return now.Sub(then) > patience && a.of.config.Clock.Since(then) > patience
}

// look ends the connection if a request or an answer stands still, or it was asked to go and does not. Watch calls it
// once a second.
func (a *account) look(now time.Time) {
	a.mu.Lock()
	why, ends := a.stands(now)
	a.mu.Unlock()
	if ends {
		a.end(why)
	}
}

// stands says why the connection should be ended by now, if it should. The caller holds mu.
func (a *account) stands(now time.Time) (why Reason, ends bool) {
	if !a.retired.IsZero() && a.over(a.retired, now, retireWithin) {
		return a.retires, true
	}
	if a.block != 0 && a.over(a.blockAt, now, patience) {
		return Headers, true
	}
	patient := patience
	if !a.over(a.flowed, now, patience) { // other calls go on: they may be those of other callers, by way of a proxy
		patient = patienceOfMany
	}
	for _, s := range a.streams {
		switch {
		case !s.inAt.IsZero() && a.over(s.inAt, now, patient):
			return SlowRequest, true
		case s.out > 0 && a.over(s.outAt, now, patient):
			return UnreadAnswer, true
		}
	}
	return 0, false
}

// bucket is a token bucket. It begins full. What is missing may be more than it holds: take takes its tokens in any
// case.
type bucket struct {
	used float64 // tokens that are missing
	at   time.Time
}

// take takes tokens, and reports whether there were so many, in a bucket that holds burst and gets rate a second.
func (b *bucket) take(now time.Time, tokens, burst, rate float64) bool {
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(0, b.used-passed.Seconds()*rate)
		b.at = now
	}
	b.used += tokens
	return b.used <= burst
}

// give puts tokens back.
func (b *bucket) give(tokens float64) { b.used = max(0, b.used-tokens) }
