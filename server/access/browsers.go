package access

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Browsers lets an HTTP port answer its operator's tools, and refuses what a page on the web made a browser send.
//
// A page can have a browser call a server on loopback, as it is, or under a name that the page's owner has pointed
// there (DNS rebinding). The first shows by the Origin of a request, the second by its Host.
type Browsers struct {
	// Local says that the port is on loopback or a Unix socket: Host must be localhost, an address of loopback, or one of
	// Hosts. Elsewhere it must be one of Hosts if there are any.
	Local bool
	// Hosts are names of the server without a port.
	Hosts []string
	// Origins are those whose pages may read answers in a browser.
	Origins []string
	// Identified says that callers need a certificate, but for the paths of Public.
	Identified bool
	// Public are paths that anybody may read.
	Public []string
	// Bodies are the beginnings of the paths that take requests with a body.
	Bodies []string
	// Nearest says, for an error, which call is nearest to one that there is not; nil: nobody knows.
	Nearest func(method, path string) string

	refused [len(reasons)]atomic.Uint64
}

// reasons are why requests are refused, as the metric has them.
var reasons = [...]string{"host", "origin", "method", "body", "certificate"}

// Indexes of reasons.
const (
	byHost = iota
	byOrigin
	byMethod
	byBody
	byCertificate
)

// Refused returns how many requests were refused, by reason.
func (b *Browsers) Refused() map[string]uint64 {
	out := map[string]uint64{}
	for i, name := range reasons {
		out[name] = b.refused[i].Load()
	}
	return out
}

// Handler returns one that refuses, or hands on to next. The order of the checks is: the Host, the page that had the
// request made, the certificate, the method, the body. Headers that keep a browser from showing an answer within
// another page, or from keeping it, are on every answer.
func (b *Browsers) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		// by is an index of reasons.
		refuse := func(by, status int, format string, args ...any) {
			b.refused[by].Add(1)
			http.Error(w, fmt.Sprintf(format, args...), status)
		}
		origin := r.Header.Get("Origin")
		if r.Header.Get("Sec-Fetch-Site") == sameOrigin { // the browser knows: a page of this server, whose name is checked
			origin = ""
		}
		// An origin that came so far is one of Origins: its pages may read the answer.
		serve := func() {
			if origin != "" {
				head.Set("Access-Control-Allow-Origin", origin)
				head.Set("Cross-Origin-Resource-Policy", "cross-origin")
				head.Add("Vary", "Origin")
			}
			next.ServeHTTP(w, r)
		}
		switch {
		case !b.knows(r.Host):
			refuse(byHost, http.StatusForbidden, "This server is not called %q. Use localhost or its address, or list the "+
				"name in the setting http-hosts.", r.Host)
		case origin != "" && !slices.Contains(b.Origins, origin):
			refuse(byOrigin, http.StatusForbidden, "Pages of %q may not read this server. List the origin in the setting "+
				"http-origins, if they are to.", origin)
		case origin == "" && !slices.Contains(ownSites, r.Header.Get("Sec-Fetch-Site")):
			refuse(byOrigin, http.StatusForbidden, "A page of another site may not have this server asked. Open its address "+
				"yourself.")
		case b.Identified && !slices.Contains(b.Public, r.URL.Path) && !identified(r.TLS):
			refuse(byCertificate, http.StatusUnauthorized, "Show a certificate of a CA that this server trusts "+
				"(curl: --cert and --key). Without one it serves %s.", strings.Join(b.Public, " and "))
		case r.Method == http.MethodPost && b.takesBody(r.URL.Path):
			serve()
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			head.Set("Allow", "GET, HEAD")
			instead := "Use GET or HEAD"
			if b.Nearest != nil {
				instead = "There is no such call, and " + b.Nearest(r.Method, r.URL.Path)
			}
			refuse(byMethod, http.StatusMethodNotAllowed, "The method %s is not served here. %s.", r.Method, instead)
		case r.ContentLength != 0:
			head.Set("Connection", "close") // rather than read the body
			refuse(byBody, http.StatusRequestEntityTooLarge, "Nothing here takes a body. Send the request without one.")
		default:
			serve()
		}
	})
}

// takesBody reports whether a path takes requests with a body. Only these may be asked by POST.
func (b *Browsers) takesBody(path string) bool {
	return slices.ContainsFunc(b.Bodies, func(begin string) bool { return strings.HasPrefix(path, begin) })
}

// ownSites are what browsers say of requests that no page of another site has made; others say nothing.
var ownSites = []string{"", "none", sameOrigin}

const sameOrigin = "same-origin"

// identified reports whether the caller has shown a certificate. The handshake fails for one that is not trusted.
func identified(s *tls.ConnectionState) bool { return s != nil && len(s.PeerCertificates) > 0 }

// knows reports whether a Host is one of the server, whatever its port, case and final dot. A name that is not known
// may be one that a page's owner has pointed here.
func (b *Browsers) knows(host string) bool {
	if host == "" {
		return true // an old tool: browsers always send one
	}
	// A Host need not have a port; one that has a strange port is refused.
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")), ".")
	if slices.ContainsFunc(b.Hosts, func(h string) bool { return strings.EqualFold(strings.Trim(h, "[]"), host) }) {
		return true
	}
	if !b.Local {
		return len(b.Hosts) == 0
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Zone() == "" && ip.IsLoopback()
}
