package protect

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/internal/owntime"
)

// Config is the limits of Connections that depend on the machine. It is fixed for its life.
type Config struct {
	// MaxHeld is how many bytes may be held for all connections together: see the package's comment. Zero: 256 MiB. Too
	// low ends connections with many calls; too high lets strangers take that much memory.
	MaxHeld int64
	// Clock is that of this process, by which it is judged what stands still. Nil: the system's.
	Clock *owntime.Clock
	// Pages is the address of HTTP, for callers who speak that here; "": there is none.
	Pages string
	// Logger gets a line for each connection that is ended, or for some of many. Nil: slog.Default().
	Logger *slog.Logger
}

// Connections bounds what the connections of one server cost. It is safe for concurrent use. Relieving is taken before
// mu and before the mu of an account; these two are never held together.
type Connections struct {
	config Config
	most   int64         // connections: half of the descriptors that this process may have
	said   *rate.Limiter // of lines in the log
	unsaid atomic.Int64  // lines that were left out
	held   atomic.Int64
	ended  [reasons]atomic.Uint64
	bulk   *rate.Limiter // of bytes of large messages that are read
	small  atomic.Int64  // when a small message came lately, in nanoseconds since 1970

	relieving sync.Mutex

	mu       sync.Mutex
	accounts map[*account]struct{} // guarded by mu; of connections that are open
	count    atomic.Int64          // of them, without the ones that are being ended
	pending  atomic.Int64          // of these, of those whose handshake is not over
}

// New returns connections without any. Connections are told by time only while Watch runs.
func New(c Config) *Connections {
	c.MaxHeld = cmp.Or(c.MaxHeld, 256<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	processors := rate.Limit(runtime.GOMAXPROCS(0))
	return &Connections{
		config: c, most: descriptors() / 2, said: rate.NewLimiter(2, 10), accounts: map[*account]struct{}{},
		bulk: rate.NewLimiter(bulkRate*processors, bulkBurst),
	}
}

// Reason is why a connection was ended.
type Reason uint8

// The reasons.
const (
	// Headers of one call came in too many pieces.
	Headers Reason = iota
	// IdleFrames came too often: frames that ask for nothing.
	IdleFrames
	// Resets of calls that were not answered came too often.
	Resets
	// SlowRequest stood still.
	SlowRequest
	// UnreadAnswer stood still.
	UnreadAnswer
	// HeldBytes were too many, of all connections, and this one had the most.
	HeldBytes
	// Refusals of calls for what they ask, or for who asks, were too many.
	Refusals

	reasons = iota
)

// String returns the reason's name in metrics and logs, such as idle_frames.
func (r Reason) String() string {
	return [...]string{
		"headers", "idle_frames", "resets", "slow_request", "unread_answer", "held_bytes", "refusals",
	}[r]
}

// Stats is how connections stand.
type Stats struct {
	Connections, HeldBytes int64
	// Ended counts the connections that were ended, by Reason.
	Ended [reasons]uint64
}

// Stats returns how they stand.
func (g *Connections) Stats() Stats {
	s := Stats{Connections: g.count.Load(), HeldBytes: g.held.Load()}
	for r := range s.Ended {
		s.Ended[r] = g.ended[r].Load()
	}
	return s
}

// Listen returns a listener whose connections have accounts from when they are accepted, for servers whose credentials
// are those of Credentials. Where the system tells, calls know how long what they were read from has waited. timeout is
// how long connections may leave what was sent to them unconfirmed, as gRPC sets it for those of its own; 0: the
// system's.
func (g *Connections) Listen(l net.Listener, timeout time.Duration) net.Listener {
	return &listener{Listener: l, connections: g, timeout: timeout}
}

// listener begins an account for each connection that it accepts. http: the connections are those of an http.Server.
type listener struct {
	net.Listener

	connections *Connections
	timeout     time.Duration
	http        bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.http && l.connections.pending.Load() > pendingHandshakes {
		time.Sleep(handshakeStep / time.Duration(runtime.GOMAXPROCS(0)))
	}
	return l.connections.open(stamped(c, l.timeout), l.http), nil
}

// open begins an account. The handshake of a connection of HTTP is nobody's to wait for. It may end other connections,
// to make room for this one.
func (g *Connections) open(c net.Conn, http bool) *accepted {
	a := &account{of: g, began: time.Now(), streams: map[uint32]*stream{}}
	a.conn = &accepted{Conn: c, account: a}
	a.arrivals, _ = within[interface{ latest() int64 }](c)
	a.atOnce.Store(firstRead)
	a.hold(connectionCost) // nobody else knows it yet
	g.count.Add(1)
	g.pending.Add(1)
	if http {
		a.shake()
	}
	g.mu.Lock()
	g.accounts[a] = struct{}{}
	g.mu.Unlock()
	g.relieve()
	return a.conn
}

// close ends an account whose connection is closed. More calls do nothing.
func (g *Connections) close(a *account) {
	g.mu.Lock()
	_, open := g.accounts[a]
	delete(g.accounts, a)
	g.mu.Unlock()
	if open {
		a.mu.Lock()
		a.shake()
		a.mu.Unlock()
		a.dissolve()
	}
}

// Credentials returns those of a server so that it reads and writes through these connections. The server's listener
// must be one of Listen. keep makes what is kept of each connection, see Kept: raw is the connection that was accepted,
// and info what the credentials say of the caller, such as a credentials.TLSInfo. Nil: nothing is.
func (g *Connections) Credentials(of credentials.TransportCredentials,
	keep func(raw net.Conn, info credentials.AuthInfo) any,
) credentials.TransportCredentials {
	return counting{of, g, keep}
}

// counting are credentials that put a framed connection around the one that they have secured.
type counting struct {
	credentials.TransportCredentials

	connections *Connections
	keep        func(net.Conn, credentials.AuthInfo) any
}

// ServerHandshake implements credentials.TransportCredentials.
func (c counting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	// The connection of an unusual listener, as in a test, begins its account here.
	from, is := raw.(*accepted)
	if !is {
		from = c.connections.open(raw, false)
	}
	if c.keep != nil {
		from.account.kept = c.keep(raw, info)
	}
	f := frame(secured, from)
	if secured == net.Conn(from) { // a handshake of TLS agrees on HTTP/2
		err = f.greet(c.connections.config.Pages)
	}
	return f, &counted{info, from.account}, err
}

// Clone implements credentials.TransportCredentials.
func (c counting) Clone() credentials.TransportCredentials {
	return counting{c.TransportCredentials.Clone(), c.connections, c.keep}
}

// counted is what gRPC tells each call of its connection.
type counted struct {
	credentials.AuthInfo

	account *account
}

// accountOf returns the account of the connection of a call or a request, if that has one.
func accountOf(ctx context.Context) (*account, bool) {
	if p, is := peer.FromContext(ctx); is {
		if c, is := p.AuthInfo.(*counted); is {
			return c.account, true
		}
	}
	a, is := ctx.Value(accountKey{}).(*account)
	return a, is
}

// Kept returns what Credentials keep of type T of the connection of a call.
func Kept[T any](ctx context.Context) (kept T, ok bool) {
	if a, is := accountOf(ctx); is {
		kept, ok = a.kept.(T)
	}
	return kept, ok
}

// within returns the first that is a T: the connection, or one of the connections that it was put around.
func within[T any](c net.Conn) (found T, ok bool) {
	for {
		if found, ok = c.(T); ok {
			return found, true
		}
		around, is := c.(interface{ NetConn() net.Conn })
		if !is {
			return found, false
		}
		c = around.NetConn()
	}
}

// CrowdedError says that a call was refused because its connection holds much.
type CrowdedError struct{}

func (*CrowdedError) Error() string {
	return "this connection holds half of what those of the server may, or a large part while that is nearly full, and " +
		"its calls make no progress; read the answers of its calls, have fewer open, or raise --max-held-bytes"
}

// crowded reports whether there is no room for another call on the connection of this one: most is held for this one,
// or much is held, and a large part of it for this one, whose calls make no progress.
func (g *Connections) crowded(ctx context.Context) bool {
	a, ok := accountOf(ctx)
	if !ok {
		return false
	}
	room := float64(g.config.MaxHeld)
	own, all := float64(a.held.Load())/room, float64(g.held.Load())/room
	return own > half || all > crowded && own > large && a.rests(time.Now())
}

// relieve ends connections if more is held than may be: the worst ones, until some of it is free, so that this need not
// be done for each connection of a crowd. It takes O(n log n) in the number of connections. The caller holds no lock of
// an account.
func (g *Connections) relieve() {
	if g.fits(1) {
		return
	}
	g.relieving.Lock() // or else two would end two connections where one suffices
	defer g.relieving.Unlock()
	if g.fits(1) {
		return
	}
	for _, a := range g.worst(time.Now()) {
		if a.end(HeldBytes); g.fits(relieved) {
			return
		}
	}
}

// fits reports whether no more is held than a part of what may be.
func (g *Connections) fits(part float64) bool {
	return float64(g.held.Load()) <= part*float64(g.config.MaxHeld) && float64(g.count.Load()) <= part*float64(g.most)
}

// worst returns all connections in the order in which they are to be ended: first the ones that hold the most, but
// before them all whose calls make no progress, if these together hold more than the others. Among equals, the ones
// whose calls made no progress for longest come first, and the newest last, which had no time to make any: a crowd that
// was answered once must not keep out the callers that come after it.
func (g *Connections) worst(now time.Time) []rank {
	var all []rank
	var began []time.Time
	rest, move := int64(0), int64(0) // bytes that they hold
	for _, a := range g.all() {
		r := rank{account: a, held: a.held.Load(), moved: a.moved.Load()}
		r.much = r.held / alike
		if r.stuck = a.rests(now); r.stuck {
			rest += r.held
		} else {
			move += r.held
		}
		all = append(all, r)
		began = append(began, r.began)
	}
	slices.SortFunc(began, time.Time.Compare)
	for i := range all {
		all[i].isNew = all[i].began.After(began[len(began)-1-len(began)/newest])
	}
	slices.SortStableFunc(all, func(x, y rank) int {
		stuck := 0
		if rest >= move {
			stuck = first(x.stuck, y.stuck)
		}
		return cmp.Or(stuck, cmp.Compare(y.much, x.much), -first(x.isNew, y.isNew), cmp.Compare(x.moved, y.moved),
			x.began.Compare(y.began))
	})
	return all
}

// first puts true before false.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// rank is what decides the place of a connection, as it was at one time.
type rank struct {
	*account

	held, much, moved int64
	stuck, isNew      bool
}

// Watch ends connections whose requests or answers stand still, until ctx ends.
func (g *Connections) Watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, a := range g.all() {
			a.look(now)
		}
	}
}

// all returns the open accounts, so that they can be looked at without mu. Some may be closed meanwhile.
func (g *Connections) all() []*account {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*account, 0, len(g.accounts))
	for a := range g.accounts {
		all = append(all, a)
	}
	return all
}

// tell notes that a connection was ended.
func (g *Connections) tell(a *account, why Reason) {
	g.ended[why].Add(1)
	if !g.said.Allow() {
		g.unsaid.Add(1)
		return
	}
	g.config.Logger.Warn("connection ended", "event", "connection_ended", "peer", a.conn.RemoteAddr().String(),
		"reason", why.String(), "held_bytes", a.held.Load(), "not_logged", g.unsaid.Swap(0))
}
