package app

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestStrangersTakeNoPlacesOfHealth: while very many requests of strangers come slowly, or stand still, health,
// readiness and metrics answer on new connections, and nobody's connection ends for that.
func TestStrangersTakeNoPlacesOfHealth(t *testing.T) {
	const crowd = 400
	r := serve(t, map[string]string{"walker": quick})
	r.awaitReady(t)
	var open []net.Conn
	for i := range crowd {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		said := "POST /v2/models/walker/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
		if _, err := io.WriteString(c, said[:len(said)-i%2*4]); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, path := range []string{"/healthz", "/readyz", "/readyz/walker", "/metrics"} {
		if code, body := r.get(t, path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for i, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(time.Microsecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
			t.Fatalf("connection %d was ended before health answered: %v", i, err)
		}
	}
}

func isTimeout(err error) bool {
	timeout, is := err.(net.Error) //nolint:errorlint // as net gives it
	return is && timeout.Timeout()
}
