package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weftserve/weft/server/access"
)

func ask(g *access.Browsers, adjust func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:9001/metrics", nil)
	adjust(r)
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })).ServeHTTP(w, r)
	return w
}

// TestGuard: what a page on the web makes a browser send is refused with a word about what to do.
func TestGuard(t *testing.T) {
	local := func() *access.Browsers {
		return &access.Browsers{
			Local: true, Hosts: []string{"Weft.example"}, Origins: []string{"https://grafana.example"},
			Public: []string{"/healthz", "/readyz"}, Bodies: []string{"/v2/"},
		}
	}
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	header := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	post := func(path string) func(*http.Request) {
		return func(r *http.Request) { r.Method, r.URL.Path, r.ContentLength = http.MethodPost, path, 5 }
	}
	certificate := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for _, c := range []struct {
		name   string
		of     func(*access.Browsers)
		adjust func(*http.Request)
		status int
		want   string
	}{
		{"a name", nil, host("localhost"), 200, "served"},
		{"a port", nil, host("LOCALHOST:1234"), 200, "served"},
		{"the root", nil, host("localhost.:9001"), 200, "served"},
		{"an address", nil, host("127.8.8.8:9001"), 200, "served"},
		{"IPv6", nil, host("[::1]:9001"), 200, "served"},
		{"IPv6 without a port", nil, host("[::1]"), 200, "served"},
		{"a name of its own", nil, host("weft.EXAMPLE:9001"), 200, "served"},
		{"no host", nil, host(""), 200, "served"},
		{"rebinding", nil, host("evil.example:9001"), 403, "http-hosts"},
		{"rebinding to a name like it", nil, host("localhost.evil.example"), 403, "http-hosts"},
		{"a foreign address", nil, host("10.0.0.1:9001"), 403, "http-hosts"},
		{"every address", nil, host("0.0.0.0:9001"), 403, "http-hosts"},
		{"elsewhere, no names", func(g *access.Browsers) { g.Local, g.Hosts = false, nil }, host("robot"), 200, "served"},
		{"elsewhere, names", func(g *access.Browsers) { g.Local = false }, host("robot"), 403, "http-hosts"},
		{"elsewhere, its name", func(g *access.Browsers) { g.Local = false }, host("weft.example"), 200, "served"},
		{"a foreign page", nil, header("Origin", "https://evil.example"), 403, "http-origins"},
		{"a page without origin", nil, header("Origin", "null"), 403, "http-origins"},
		{"a page of its own", nil, header("Origin", "http://localhost:9001"), 403, "http-origins"},
		{"a page that the browser says is its own", nil, func(r *http.Request) {
			r.Header.Set("Origin", "http://localhost:9001")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}, 200, "served"},
		{"its own page under another name", nil, func(r *http.Request) {
			r.Host = "evil.example"
			r.Header.Set("Origin", "http://evil.example")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}, 403, "http-hosts"},
		{"an allowed page", nil, header("Origin", "https://grafana.example"), 200, "served"},
		{"another method", nil, func(r *http.Request) { r.Method = http.MethodPost }, 405, "GET or HEAD"},
		{"CORS preflight", nil, func(r *http.Request) { r.Method = http.MethodOptions }, 405, "GET or HEAD"},
		{"a body", nil, func(r *http.Request) { r.ContentLength = 5 }, 413, "without one"},
		{"a body of unknown length", nil, func(r *http.Request) { r.ContentLength = -1 }, 413, "without one"},
		{"a body where one is taken", nil, post("/v2/x"), 200, "served"},
		{"a body beside that", nil, post("/v2x"), 405, "GET or HEAD"},
		{"a body of a foreign page", nil, func(r *http.Request) {
			post("/v2/x")(r)
			r.Header.Set("Origin", "https://evil.example")
		}, 403, "http-origins"},
		{"a body without a certificate", func(g *access.Browsers) { g.Identified = true }, post("/v2/x"), 401, "--cert"},
		{"no certificate", func(g *access.Browsers) { g.Identified = true }, host("localhost"), 401, "--cert"},
		{
			"health", func(g *access.Browsers) { g.Identified = true },
			func(r *http.Request) { r.URL.Path = "/readyz" }, 200, "served",
		},
		{
			"a certificate", func(g *access.Browsers) { g.Identified = true },
			func(r *http.Request) { r.TLS = certificate }, 200, "served",
		},
	} {
		g := local()
		if c.of != nil {
			c.of(g)
		}
		answer := ask(g, c.adjust)
		if body := answer.Body.String(); answer.Code != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.name, answer.Code, body, c.status, c.want)
		}
		for key, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := answer.Header().Get(key); got != want {
				t.Errorf("%s: %s is %q", c.name, key, got)
			}
		}
		if c.status != 200 && !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: an error as %q", c.name, answer.Header().Get("Content-Type"))
		}
		if allowed := answer.Header().Get("Access-Control-Allow-Origin"); (allowed != "") != (c.name == "an allowed page") {
			t.Errorf("%s: allows %q", c.name, allowed)
		}
		total := uint64(0)
		for _, n := range g.Refused() {
			total += n
		}
		if (total == 1) != (c.status != 200) {
			t.Errorf("%s: counted %v", c.name, g.Refused())
		}
	}
}

// TestNoNameIsOfLoopback: no name that anybody may register is taken for this machine.
func TestNoNameIsOfLoopback(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	g := &access.Browsers{Local: true}
	parts := []string{"localhost", "127.0.0.1", "::1", "[", "]", ".", ":", "evil.example", "@", "%", "9001", "0", "x"}
	for range 20_000 {
		var b strings.Builder
		for range 1 + random.IntN(5) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		name := b.String()
		if !strings.HasSuffix(strings.TrimSuffix(name, ":9001"), "evil.example") {
			name += ".evil.example"
		}
		if status := ask(g, func(r *http.Request) { r.Host = name }).Code; status != http.StatusForbidden {
			t.Errorf("%q: %d", name, status)
		}
	}
}
