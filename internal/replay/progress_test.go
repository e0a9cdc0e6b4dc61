package replay

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/record"
)

// TestReplayProgress: a line now and then, with the rate since the line before.
func TestReplayProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, err := record.Open(recordSome(t, record.Config{}, 400, "walker"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := newProgress(&out)
		time.Sleep(time.Second)
		n := 0
		for _, err := range p.reading(reader, reader.Entries()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 {
				continue // it is read ahead
			}
			p.sending()
			p.done(n%10 == 0)
			if n == 301 {
				time.Sleep(9500 * time.Millisecond) // a line at 10 s
			}
		}
		time.Sleep(10 * time.Second)
		if _, err := p.Write([]byte("something else\n")); err != nil {
			t.Fatal(err)
		}
		p.Close()
		const want = "replaying: sent 300, failed 30, 30/s, 75 %, about 3s left\n" +
			"replaying: sent 399, failed 40, 10/s, 100 %, about 0s left\nsomething else\n"
		if out.String() != want {
			t.Errorf("%q\nwant %q", out.String(), want)
		}
	})
}
