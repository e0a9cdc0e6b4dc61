package doorkeeper

import (
	"net/http"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/identity"
)

// Page returns a page that only callers get who have one of the permissions on the server as a whole.
func (d *Door) Page(need access.Permissions, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := d.book.Load()
		if b == nil {
			page.ServeHTTP(w, r)
			return
		}
		rule := access.Rule{Method: r.Method + " " + r.URL.Path, AnyOf: need, Whole: true}
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
		case isOf[*access.DeniedError](err), reasonOf(err) == string(identity.Stranger):
			code = http.StatusForbidden
		case isOf[*identity.UnreachableError](err):
			code = http.StatusServiceUnavailable
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, err.Error(), code)
	})
}

// visitor finds out who asks for a page.
func (b *book) visitor(r *http.Request) (*Caller, error) {
	at := &connection{}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // verified: no other is taken
		at.proof = identity.OfCertificate(r.TLS.PeerCertificates[0])
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		return b.bearer(r.Context(), at, header)
	}
	return b.caller(at.proof)
}
