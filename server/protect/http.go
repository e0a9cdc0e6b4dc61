package protect

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// ListenHTTP returns a listener whose connections have accounts, for an http.Server with ConnContext and a handler of
// Pages. They have no places: one more is let in always, and who holds the most, or has held it the longest without
// progress, makes room for it.
func (g *Connections) ListenHTTP(l net.Listener) net.Listener {
	return &listener{Listener: l, connections: g, http: true}
}

// accountKey is the key of the *account in the contexts of a connection's requests.
type accountKey struct{}

// ConnContext is a part of that of an http.Server whose listener is one of ListenHTTP, or one of TLS around it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if own, is := within[*accepted](c); is {
		return context.WithValue(ctx, accountKey{}, own.account)
	}
	return ctx
}

// Reads returns how to learn how many of the bytes that were sent on the connection of a call or a request have arrived
// at its peer's machine, and how many have not; nil where nothing is known of it.
func Reads(ctx context.Context) func() (arrived, underWay int64) {
	a, ok := accountOf(ctx)
	if !ok {
		return nil
	}
	return func() (arrived, underWay int64) { return taken(a.conn.Conn) }
}

// Pages has requests to next count with what they hold: each a handler, what has come of its body, and what is being
// written of its answer.
func Pages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := accountOf(r.Context())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		body := &heldBody{ReadCloser: r.Body, account: a, held: handlerCost}
		answer := &heldAnswer{ResponseWriter: w, account: a}
		a.holds(handlerCost)
		defer func() {
			a.holds(-body.held)
			Judge(r.Context(), answer.fault)
		}()
		if r.Body != http.NoBody {
			r.Body = body
		}
		next.ServeHTTP(answer, r)
	})
}

// holds is hold for callers that do not hold mu.
func (a *account) holds(bytes int64) {
	a.mu.Lock()
	a.hold(bytes)
	a.mu.Unlock()
	if bytes > 0 {
		a.of.relieve()
	}
}

// heldBody is the body of a request, which is held until its handler ends. Its handler alone reads it.
type heldBody struct {
	io.ReadCloser

	account *account
	held    int64
	dropped bool
}

// Drop says that what was read, and what will be, is not kept.
func (b *heldBody) Drop() {
	b.dropped = true
	b.account.holds(-b.held)
	b.held = 0
}

// Read implements io.Reader.
func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.dropped {
		return n, err
	}
	more := memoryOf(n)
	b.held += more
	b.account.holds(more)
	return n, err
}

// heldAnswer writes an answer, which is held until its peer has taken it.
type heldAnswer struct {
	http.ResponseWriter

	account *account
	fault   bool // the request is refused for what it is
	judged  bool // by Refuses, and not by the code of the answer
}

// Refuses says whether the answer that is to be written refuses its request for what it asks or who asks it, where its
// code alone does not tell.
func Refuses(w http.ResponseWriter, fault bool) {
	for w != nil {
		if held, is := w.(*heldAnswer); is {
			held.fault, held.judged = fault, true
			return
		}
		around, is := w.(interface{ Unwrap() http.ResponseWriter })
		if !is {
			return
		}
		w = around.Unwrap()
	}
}

// Unwrap is for http.ResponseController.
func (w *heldAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter. Where the connection had too many requests refused, the answer that
// refuses another one is its last: net/http closes the connection after it.
func (w *heldAnswer) WriteHeader(code int) {
	if !w.judged {
		// What is wrong with the request itself; the two others are for lack of time and of capacity.
		w.fault = 400 <= code && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
	}
	if w.fault && w.account.refusesMuch() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// refusesMuch reports whether one more refusal is too many, and notes that the connection is ended for that.
func (a *account) refusesMuch() bool {
	a.mu.Lock()
	now := time.Now()
	a.refused.take(now, 0, refusalBurst, refusalRate)
	much := a.refused.used+1 > refusalBurst
	tell := much && a.retired.IsZero()
	if tell {
		a.retired, a.retires = now, Refusals
	}
	a.mu.Unlock()
	if tell {
		a.of.tell(a, Refusals)
	}
	return much
}

// Write implements io.Writer. It writes in pieces, and each is progress.
func (w *heldAnswer) Write(b []byte) (n int, err error) {
	const piece = 256 << 10
	held := memoryOf(len(b))
	w.account.holds(held)
	for {
		more, err := w.ResponseWriter.Write(b[n:min(len(b), n+piece)])
		n += more
		left := memoryOf(len(b) - n)
		if err != nil {
			left = 0
		}
		w.account.holds(left - held)
		w.account.moved.Store(time.Now().UnixNano())
		if held = left; held == 0 {
			return n, err
		}
	}
}
