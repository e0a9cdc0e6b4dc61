package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress has each figure at once, and now and then how far it is.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := show(&out)
		time.Sleep(11 * time.Second)
		s.found(1, 4, "a on b: 0.97")
		time.Sleep(10 * time.Second)
		s.line.Close()
		const want = "sim: no figure yet after 10s\na on b: 0.97\nsim: 1 of 4 figures, about 1m0s left\n"
		if out.String() != want {
			t.Errorf("%q\nwant %q", out.String(), want)
		}
	})
}
