package progress

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestInALog: a line now and then.
func TestInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := 0
		l := Start(&out, "counting", func() string {
			n++
			return strconv.Itoa(n)
		})
		time.Sleep(25 * time.Second)
		if _, err := l.Write([]byte("something else\n")); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if want := "counting: 1\ncounting: 2\nsomething else\n"; out.String() != want {
			t.Errorf("%q\nwant %q", out.String(), want)
		}
	})
}

// TestOnATerminal is one line, which makes room for others and is not there when there is nothing to say.
func TestOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var text atomic.Value
		text.Store("1")
		l := start(&out, "counting", func() string { return text.Load().(string) }, true)
		time.Sleep(2*onTerminal + 1)
		if _, err := l.Write([]byte("something else\n")); err != nil {
			t.Fatal(err)
		}
		text.Store("a\x1b[31m\n")
		time.Sleep(onTerminal)
		text.Store("")
		time.Sleep(2 * onTerminal)
		text.Store("1")
		time.Sleep(onTerminal)
		l.Close()
		l.Close()
		if _, err := l.Write([]byte("after it\n")); err != nil {
			t.Fatal(err)
		}
		const line, clean = "\r\x1b[?7l1\x1b[K\x1b[?7h", "\r\x1b[K"
		names := strings.Replace(line, "1\x1b", "a?[31m?\x1b", 1)
		want := line + line + clean + "something else\n" + names + clean + line + clean + "after it\n"
		if out.String() != want {
			t.Errorf("%q\nwant %q", out.String(), want)
		}
	})
}

// TestTerminal: files, pipes and the null device are none.
func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Terminal(null) || Terminal(&bytes.Buffer{}) {
		t.Error("the null device or a buffer counts as a terminal")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0) // the side of the pair that a program has counts as well
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	if !Terminal(terminal) {
		t.Error("a terminal does not count as one")
	}
	if t.Setenv("TERM", "dumb"); Terminal(terminal) {
		t.Error("a terminal that cannot rewrite a line counts as one that can")
	}
}

// TestBytes has the rate of what came since the first byte, and the time that the rest takes at that rate.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done, of int64
		say := Bytes("library", func() (int64, int64) { return done, of })
		for _, step := range []struct {
			done, of int64
			want     string
		}{
			{0, 0, "library: waiting for it, 2s so far"},
			{0, 90e6, "library: waiting for it, 4s so far"},
			{10e6, 90e6, "library: 10.0 of 90.0 MB"},
			{30e6, 90e6, "library: 30.0 of 90.0 MB, 10.0 MB/s, about 6s left"},
			{90e6, 90e6, "library: 90.0 of 90.0 MB, 20.0 MB/s"},
			{100e6, 0, "library: 100.0 MB, 15.0 MB/s"},
		} {
			time.Sleep(2 * time.Second)
			if done, of = step.done, step.of; say() != step.want {
				t.Errorf("%d of %d: %q\nwant %q", done, of, say(), step.want)
			}
		}
	})
}
