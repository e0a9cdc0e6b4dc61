package access

import (
	"context"
	"net"
	"net/http"
)

// Page returns a handler that shows a page only to callers with one of the permissions on the server as a whole. Others
// get 401 where a proof is missing or wrong, 403 where it is right and does not suffice, and 503 while a token cannot
// be verified.
func (d *Control) Page(need Permissions, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule := Rule{Method: r.Method + " " + r.URL.Path, AnyOf: need, Whole: true}
		c, err := d.EnterPage(r, &rule)
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

// EnterPage is Enter for a request of HTTP. The connection remembers its caller only where no certificate was shown:
// one of HTTP has its certificate matched for each request.
func (d *Control) EnterPage(r *http.Request, rule *Rule) (*Caller, error) {
	b := d.book.Load()
	if b == nil {
		return nil, nil //nolint:nilnil // everybody is welcome
	}
	at, known := r.Context().Value(connectionKey{}).(*connection)
	if !known {
		at = &connection{}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // verified: no other is taken
		at = &connection{proof: OfCertificate(r.TLS.PeerCertificates[0])}
	}
	return b.enter(r.Context(), at, r.Header.Values("Authorization"), rule.Public)
}

// Visitor returns who asks for a page; nil: everybody may do everything. Anybody who proves nothing, or something
// wrong, is nobody.
func (d *Control) Visitor(r *http.Request) *Caller {
	c, _ := d.EnterPage(r, &Rule{Public: true}) // which has no error
	return c
}

// VisitorAgain is Visitor for one who was let in as c, in case something has changed since.
func (d *Control) VisitorAgain(r *http.Request, c *Caller) *Caller {
	if c != nil && c.book == d.book.Load() && c.holds() {
		return c
	}
	return d.Visitor(r)
}

// connectionKey is the key of the *connection in the contexts of its requests.
type connectionKey struct{}

// ConnContext is that of an http.Server whose pages want to know who connects to a unix socket.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, Keep(c, nil))
}
