package access

import (
	"context"
	"net"
	"net/http"
)

// Page returns a page that only callers get who have one of the permissions on the server as a whole.
func (d *Control) Page(need Permissions, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := d.book.Load()
		if b == nil {
			page.ServeHTTP(w, r)
			return
		}
		rule := Rule{Method: r.Method + " " + r.URL.Path, AnyOf: need, Whole: true}
		c, err := b.visitor(r)
		if err == nil {
			err = c.Check(&rule, "")
		}
		if err == nil {
			page.ServeHTTP(w, r)
			return
		}
		d.Deny(r.Context(), c, rule.Method, "", err)
		code := http.StatusUnauthorized
		switch {
		case isOf[*DeniedError](err), reasonOf(err) == string(Stranger):
			code = http.StatusForbidden
		case isOf[*UnreachableError](err):
			code = http.StatusServiceUnavailable
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, err.Error(), code)
	})
}

// EnterPage is Enter for a request of HTTP.
func (d *Control) EnterPage(r *http.Request, rule *Rule) (*Caller, error) {
	b := d.book.Load()
	if b == nil {
		return nil, nil //nolint:nilnil // everybody is welcome
	}
	c, err := b.visitor(r)
	if err != nil && rule.Public {
		return &Caller{Identity: Nobody, How: Anonymous}, nil
	}
	return c, err
}

// Visitor returns who asks for a page; nil: the door is open to all. Whoever proves nothing, or something wrong, is
// nobody.
func (d *Control) Visitor(r *http.Request) *Caller {
	b := d.book.Load()
	if b == nil {
		return nil
	}
	c, err := b.visitor(r)
	if err != nil {
		return &Caller{Identity: Nobody, How: Anonymous}
	}
	return c
}

// VisitorAgain is Visitor for one who was let in as c, in case something has changed since.
func (d *Control) VisitorAgain(r *http.Request, c *Caller) *Caller {
	if c != nil && c.book == d.book.Load() && c.holds() {
		return c
	}
	return d.Visitor(r)
}

// Listen returns a listener for a server of pages with ConnContext, so that they know who connects to a unix socket.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &visiting{c, OfConnection(c, nil)}, nil
}

// visiting is a connection whose address says what it proves: other listeners put theirs around it, and hide all else.
type visiting struct {
	net.Conn

	proof Proof
}

// RemoteAddr implements net.Conn.
func (v *visiting) RemoteAddr() net.Addr { return proven{v.Conn.RemoteAddr(), v.proof} }

// NetConn returns the connection that was accepted.
func (v *visiting) NetConn() net.Conn { return v.Conn }

type proven struct {
	net.Addr

	proof Proof
}

type proofKey struct{}

// ConnContext is that of an http.Server whose listener is one of Listen.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if at, is := c.RemoteAddr().(proven); is {
		ctx = context.WithValue(ctx, proofKey{}, at.proof)
	}
	return ctx
}

// visitor finds out who asks for a page.
func (b *book) visitor(r *http.Request) (*Caller, error) {
	at := &connection{}
	at.proof, _ = r.Context().Value(proofKey{}).(Proof)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // verified: no other is taken
		at.proof = OfCertificate(r.TLS.PeerCertificates[0])
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		return b.bearer(r.Context(), at, header)
	}
	return b.caller(at.proof)
}
