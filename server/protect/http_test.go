package protect

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// web is a guarded server of HTTP, which answers with as many bytes as the path says once the body has come.
func web(t *testing.T, g *Connections) *house {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		ReadHeaderTimeout: time.Minute, ConnContext: ConnContext,
		Handler: Pages(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/spent": // as a quota is
				Refuses(w, true)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			case "/busy":
				Refuses(w, false)
				w.WriteHeader(http.StatusConflict)
				return
			}
			var size int
			_, err := fmt.Sscanf(r.URL.Path, "/%d", &size)
			if err != nil {
				http.NotFound(w, r)
			} else if _, err := io.Copy(io.Discard, r.Body); err == nil {
				_, _ = w.Write(make([]byte, size))
			}
		})),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(g.ListenHTTP(l))
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return &house{g, l.Addr().String()}
}

// quiet returns connections that log nothing.
func quiet(most int64) *Connections {
	return New(Config{MaxHeld: most, Logger: slog.New(slog.DiscardHandler)})
}

// visit sends a text on a new connection, and returns that.
func (h *house) visit(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// answered reads an answer with so many bytes.
func answered(t *testing.T, c net.Conn, size int) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || int(n) != size {
		t.Fatalf("%d bytes, %v; want %d", n, err, size)
	}
}

const (
	ask1     = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
	slowBody = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nslow"
)

// TestCrowdOfHTTP: whatever a crowd holds that there is no room for, the next caller is answered, and one who asks for
// something else meanwhile.
func TestCrowdOfHTTP(t *testing.T) {
	for name, hold := range map[string]func(*testing.T, *house){
		"idle":         func(t *testing.T, h *house) { h.visit(t, "") },
		"slow headers": func(t *testing.T, h *house) { h.visit(t, "GET /1 HTTP/1.1\r\n") },
		"slow bodies":  func(t *testing.T, h *house) { h.visit(t, slowBody) },
		"slow bodies after an answer": func(t *testing.T, h *house) {
			c := h.visit(t, ask1)
			answered(t, c, 1)
			_, _ = io.WriteString(c, slowBody) // it may have been ended
		},
		"large bodies": func(t *testing.T, h *house) {
			c := h.visit(t, "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
			_, _ = c.Write(make([]byte, 1<<20))
		},
		"unread answers": func(t *testing.T, h *house) {
			c := h.visit(t, "GET /4000000 HTTP/1.1\r\nHost: a\r\n\r\n")
			_, _ = c.Read(make([]byte, 1)) // its answer is counted now; it may have been ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			const held, crowd = 8 << 20, 200 // there is room for 149 at most
			h := web(t, quiet(held))
			var most atomic.Int64
			for range crowd {
				hold(t, h)
				answered(t, h.visit(t, ask1), 1)
				most.Store(max(most.Load(), h.Stats().HeldBytes))
			}
			if s := h.Stats(); s.Ended[HeldBytes] == 0 || most.Load() > held+slack {
				t.Errorf("ended: %v; %d bytes were held, want %d", s.Ended, most.Load(), held)
			}
		})
	}
}

// TestCrowdOfDescriptors: connections take half of the descriptors at most.
func TestCrowdOfDescriptors(t *testing.T) {
	const most = 50
	g := quiet(0)
	g.most = most
	h := web(t, g)
	for range 3 * most {
		h.visit(t, slowBody)
		answered(t, h.visit(t, ask1), 1)
		if n := h.Stats().Connections; n > most+1 { // one that was just let in
			t.Fatalf("%d connections are open, want %d", n, most)
		}
	}
}

// slack is what may be held beyond the bound for a moment: what was just counted as the bound was reached.
const slack = 1 << 20

// TestAccountOfHTTP: nothing is held once connections are gone, however their requests ended.
func TestAccountOfHTTP(t *testing.T) {
	h := web(t, quiet(0))
	for range 20 {
		for _, text := range []string{
			"", ask1, slowBody, "GET /9000000 HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n",
			"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nslow",
		} {
			h.visit(t, text)
		}
		answered(t, h.visit(t, "POST /70000 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"), 70000)
	}
	if n := h.Stats().Connections; n < 100 {
		t.Errorf("%d connections are known", n)
	}
	h.endAll()
	settle(t, h.Connections)
}

// TestRefusalsOfHTTP: the connection of who asks for what there is not, again and again, ends with the answer that says
// so. That of who asks as often for what there is stays.
func TestRefusalsOfHTTP(t *testing.T) {
	h := web(t, quiet(0))
	for path, ends := range map[string]bool{"/1": false, "/nothing": true, "/spent": true, "/busy": false} {
		before := h.Stats().Ended[Refusals]
		c := h.visit(t, "")
		answers, closes := bufio.NewReader(c), false
		for range 2*refusalBurst + 10*refusalRate {
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				break
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			closes = answer.Close
		}
		if n := h.Stats().Ended[Refusals] - before; closes != ends || ends && n != 1 {
			t.Errorf("%s: the connection ends: %v; for refusals: %d", path, closes, n)
		}
	}
}

// endAll ends all connections, as if each exceeded a limit.
func (h *house) endAll() {
	for _, a := range h.all() {
		a.end(HeldBytes)
	}
}
