package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/server/shadow"
)

// disk is a writer that can be slow or full.
type disk struct {
	mu      sync.Mutex
	room    int // bytes until it is full; negative: endless
	written bytes.Buffer
	gate    chan struct{} // nil: open
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(p []byte) (int, error) {
	if d.gate != nil {
		<-d.gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(p)
	if d.room >= 0 {
		n = min(n, d.room)
		d.room -= n
	}
	d.written.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.SplitAfter(strings.TrimSuffix(d.written.String(), "\n"), "\n")
}

// TestSlowLog: a writer that hangs delays nothing, and takes no more memory than is stated.
func TestSlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1, gate: make(chan struct{})}
		m := shadow.New(quiet(shadow.Config{Log: d, Models: failing(errModel)}))
		const n = 10_000
		offer := offerOf(3)
		for range n {
			m.Offer(offer)
			synctest.Wait()
		}
		if diff := cmp.Diff(counts{Offered: n, Failed: n}, countsOf(only(t, m))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		lost := m.LinesLost()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed while lines wait: %v", err)
		}
		close(d.gate)
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := d.lines()
		if lost == 0 || int64(len(got))+lost != n || m.LinesLost() != lost {
			t.Errorf("%d lines written, %d lost before and %d in all, of %d", len(got), lost, m.LinesLost(), n)
		}
		if size := d.written.Len(); size > 1<<20+len(got[0]) || size < 1<<20-len(got[0]) {
			t.Errorf("%d bytes waited, want a megabyte", size)
		}
	})
}
