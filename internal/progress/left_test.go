package progress

import (
	"testing"
	"testing/synctest"
	"time"
)

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
