package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
)

// listen returns a socket to which the process tells how it is.
func listen(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return c
}

func next(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(weftest.Patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<10)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestTold: what a manager hears over its socket is in the order in which it is so, and nothing is said too early.
func TestTold(t *testing.T) {
	c := listen(t)
	s := NewSupervisor(slog.New(slog.DiscardHandler))
	reloads := 0
	reload := func() { reloads++ }
	s.During(reload) // while it starts
	s.Ready()
	if got := next(t, c); got != "READY=1" {
		t.Errorf("a reload and the end of the start told %q", got)
	}
	s.During(reload)
	lines := strings.Split(strings.TrimSpace(next(t, c)), "\n")
	if lines[0] != "RELOADING=1" {
		t.Errorf("a reload told %q", lines)
	}
	if usec, is := strings.CutPrefix(lines[len(lines)-1], "MONOTONIC_USEC="); !is {
		t.Errorf("a reload told no time: %q", lines)
	} else if n, err := strconv.ParseInt(usec, 10, 64); err != nil || n <= 0 {
		t.Errorf("a reload told the time %q", usec)
	}
	if got := next(t, c); got != "READY=1" {
		t.Errorf("the end of a reload told %q", got)
	}
	s.During(s.Stopping) // a stop amid a reload
	if got := next(t, c); !strings.HasPrefix(got, "RELOADING=1\n") {
		t.Errorf("a reload told %q", got)
	}
	if got := next(t, c); got != "STOPPING=1" {
		t.Errorf("a stop told %q", got)
	}
	s.Ready()
	s.During(reload)
	s.Stopping()
	s.notify("END")
	if got := next(t, c); got != "END" {
		t.Errorf("after the stop, it told %q", got)
	}
	if reloads != 3 {
		t.Errorf("%d reloads, want 3", reloads)
	}
}

func TestWithoutAManagerNothingIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	var warnings weftest.Log
	s := NewSupervisor(slog.New(&warnings))
	s.Ready()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.Watch(ctx, Probe{"a", func() { t.Error("it was asked, for nobody") }})
	if lines := warnings.Lines(""); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// TestFaultsAreLogged: neither a manager that went away nor a faulty interval stops the process.
func TestFaultsAreLogged(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	t.Setenv("WATCHDOG_USEC", "often")
	var warnings weftest.Log
	s := NewSupervisor(slog.New(&warnings))
	s.Ready()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.Watch(ctx)
	for _, event := range []string{"supervisor_not_told", "watchdog_not_fed"} {
		if n := len(warnings.Event(event)); n != 1 {
			t.Errorf("%d records of %s in %q", n, event, warnings.Lines(""))
		}
	}
}

// TestAWatchdogIsFedOnlyByProgress: beats come twice in the manager's time, none while a part hangs, and the log says
// which one it is.
func TestAWatchdogIsFedOnlyByProgress(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "10000000")
	t.Setenv("WATCHDOG_PID", "")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var beats []time.Duration
		tell := func(state string) error {
			if state != "WATCHDOG=1" {
				return errors.New("told " + state)
			}
			beats = append(beats, time.Since(begin).Round(time.Second))
			return nil
		}
		var log weftest.Log
		s := &Supervisor{log: slog.New(&log), tell: tell}
		hang := make(chan struct{})
		ask := func() {
			if at := time.Since(begin); at > 12*time.Second && at < 60*time.Second {
				<-hang
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			s.Watch(ctx, Probe{"quick", func() {}}, Probe{"stuck", ask})
			close(ended)
		}()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, 5 * time.Second, 10 * time.Second}; !slices.Equal(beats, want) {
			t.Errorf("beats at %v, want %v", beats, want)
		}
		if lines := log.Lines("no_progress"); len(lines) != 1 || !strings.Contains(lines[0], "part=stuck") {
			t.Errorf("logged %q", log.Lines(""))
		}
		close(hang)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(beats) < 5 {
			t.Errorf("the part goes on, and beats came at %v", beats)
		}
		stop()
		<-ended
	})
}

// TestAManagerThatDoesNotReadHoldsNothingUp: what there is no room for is not told, and the log says so.
func TestAManagerThatDoesNotReadHoldsNothingUp(t *testing.T) {
	listen(t)
	var log strings.Builder
	s := NewSupervisor(slog.New(slog.NewTextHandler(&log, nil)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 1000 { // more than a system keeps for one that does not read
			s.notify("WATCHDOG=1")
			if log.Len() > 0 {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(weftest.Patience):
		t.Fatal("it waits for the manager")
	}
	if !strings.Contains(log.String(), "supervisor_not_told") {
		t.Error("all was told")
	}
}
