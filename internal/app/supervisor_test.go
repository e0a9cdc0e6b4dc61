package app

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/sharedsched/shell"
)

// manager is a service manager's socket.
type manager struct{ *net.UnixConn }

func newManager(t *testing.T) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	return manager{c}
}

// next returns the first line of what is told next, but not a beat, and how many beats came before it.
func (m manager) next(t *testing.T) (state string, beats int) {
	t.Helper()
	if err := m.SetReadDeadline(time.Now().Add(weftest.Patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<10)
	for {
		n, err := m.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		state, _, _ = strings.Cut(string(b[:n]), "\n")
		if state != "WATCHDOG=1" {
			return state, beats
		}
		beats++
	}
}

// TestAServiceManagerIsTold follows a server from its start, through a reload, to its stop.
func TestAServiceManagerIsTold(t *testing.T) {
	m := newManager(t)
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	hangups := make(chan os.Signal, 1)
	r := serveFrom(t, repository, func(a *App) { a.hangups = hangups })
	want := func(want string) (beats int) {
		t.Helper()
		state, beats := m.next(t)
		if state != want {
			t.Fatalf("told %s, want %s", state, want)
		}
		return beats
	}
	want("READY=1")
	r.awaitReady(t)
	hangups <- syscall.SIGHUP
	want("RELOADING=1")
	want("READY=1")
	for i := range 3 { // beats, as long as nothing else is told
		if err := m.SetReadDeadline(time.Now().Add(weftest.Patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<10)
		if n, err := m.Read(b); err != nil || string(b[:n]) != "WATCHDOG=1" {
			t.Fatalf("beat %d: %q, %v", i, b[:n], err)
		}
	}
	r.stop()
	want("STOPPING=1")
}

// TestAHeldLockStopsTheBeats: each of the two locks without which no request is answered and no model changes keeps its
// probe from answering.
func TestAHeldLockStopsTheBeats(t *testing.T) {
	s := config.DefaultServer()
	h, err := newHouse(&s, slog.New(slog.DiscardHandler), nil, host.Config{}, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	locks := map[string]any{"scheduler": h.scheduler, "models": h.models}
	for _, p := range h.probes() {
		p.Ask() // while nothing holds it
		mu := (*sync.Mutex)(reflect.ValueOf(locks[p.Name]).Elem().FieldByName("mu").Addr().UnsafePointer())
		mu.Lock()
		answered := make(chan struct{})
		go func() {
			p.Ask()
			close(answered)
		}()
		select {
		case <-answered:
			t.Errorf("%s answers although its lock is held", p.Name)
		case <-time.After(50 * time.Millisecond):
		}
		mu.Unlock()
		<-answered
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
}
