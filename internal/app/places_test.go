package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/server/activity"
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
		t.Cleanup(func() { _ = c.Close() })
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

// TestViewersThatDoNotReadMakeRoom for one that does.
func TestViewersThatDoNotReadMakeRoom(t *testing.T) {
	r := serve(t, map[string]string{"walker": quick})
	r.awaitReady(t)
	var open []net.Conn
	for range activity.MostViewers {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /live/activity HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		if _, err := c.Read(make([]byte, 1)); err != nil { // it is shown something
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.http+"/live/activity", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewReader(answer.Body); ; {
		if line, err := lines.ReadString('\n'); err != nil || line == "event: activity\n" {
			if err != nil {
				t.Errorf("%s: %q, %v", answer.Status, line, err)
			}
			return
		}
	}
}

func isTimeout(err error) bool {
	timeout, is := err.(net.Error) //nolint:errorlint // as net gives it
	return is && timeout.Timeout()
}
