package progress

import (
	"bytes"
	"strconv"
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

// TestOnATerminal is one line, which makes room for others.
func TestOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := Start(&out, "counting", func() string { return "1" })
		l.terminal = true
		l.tell()
		l.tell()
		if _, err := l.Write([]byte("something else\n")); err != nil {
			t.Fatal(err)
		}
		l.tell()
		l.Close()
		const line, clean = "\r1\x1b[K", "\r\x1b[K"
		if want := line + line + clean + "something else\n" + line + clean; out.String() != want {
			t.Errorf("%q\nwant %q", out.String(), want)
		}
	})
}
