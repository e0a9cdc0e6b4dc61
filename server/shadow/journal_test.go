package shadow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
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

func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		m := shadow.New(quiet(shadow.Config{
			Log: d,
			Models: modelsFunc(func(_ context.Context, call *catalog.Call) error {
				if call.Version.Number == 4 {
					return errModel
				}
				call.Results = []tensor.Tensor{
					weftest.Floats(tensor.Shape{1, 2}, float32(math.NaN()), 5),
					weftest.Floats(tensor.Shape{2}, 6, 6),
				}
				call.Outcome.Compute = 1500 * time.Microsecond
				return nil
			}),
		}))
		m.Offer(offerOf(3))
		synctest.Wait()
		m.Offer(offerOf(4))
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Format(time.RFC3339Nano)
		common := `{"time":"` + at + `","model":"policy","primary_version":1,`
		want := []string{
			common + `"shadow_version":3,"slot":"prod","request_id":"r1","episode_id":"e1","outcome":"done","agreed":false,` +
				`"primary_compute_ms":4,"shadow_compute_ms":1.5,"outputs":[` +
				`{"name":"action","max_absolute":"Infinity","max_relative":"Infinity","cosine":1,"rows":1,"same_argmax":1,"agreed":false},` +
				`{"name":"value","mismatch":"the shadow gives fp32 [2] instead of fp32 [1]","max_absolute":0,"max_relative":0,"rows":0,` +
				`"same_argmax":0,"agreed":false}]}` + "\n",
			common + `"shadow_version":4,"slot":"prod","request_id":"r1","episode_id":"e1","outcome":"failed",` +
				`"error":"model \"policy\" version 3 failed on this input: no such row","agreed":false}`,
		}
		got := d.lines()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		for _, line := range got {
			if !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %s", line)
			}
		}
		if m.LinesLost() != 0 {
			t.Errorf("%d lines lost", m.LinesLost())
		}
	})
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

// TestFullDisk: a line that was cut short damages no other line, and a disk with room again is used again.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := &disk{room: -1}
		m := shadow.New(shadow.Config{Log: d, Models: repeat(), Logger: slog.New(slog.NewTextHandler(&said, nil))})
		offer := func(room int) {
			d.mu.Lock()
			d.room = room
			d.mu.Unlock()
			m.Offer(offerOf(3))
			synctest.Wait()
		}
		offer(-1)
		for _, room := range []int{0, 10, 0, 1, -1} { // the 1 is taken by the end of the line that was cut after 10
			offer(room)
		}
		offer(5)
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := d.lines()
		if len(got) != 4 || !json.Valid([]byte(got[0])) || got[1] != `{"time":"2`+"\n" || !json.Valid([]byte(got[2])) ||
			got[3] != `{"tim` {
			t.Errorf("got %q", got)
		}
		if m.LinesLost() != 5 {
			t.Errorf("%d lines lost, want 5", m.LinesLost())
		}
		const warning = "event=shadow_log_failed"
		if n := strings.Count(said.String(), warning); n != 2 || !strings.Contains(said.String(), errFull.Error()) {
			t.Errorf("%d warnings, want one for each time it became full:\n%s", n, said.String())
		}
	})
}

// TestLogNames: the names that clients give their requests end no line.
func TestLogNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		m := shadow.New(quiet(shadow.Config{Log: d, Models: repeat()}))
		o := offerOf(3)
		o.RequestID = "a\n{\"\xff"
		m.Offer(o)
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var line struct {
			RequestID string `json:"request_id"`
		}
		got := d.lines()
		if err := json.Unmarshal([]byte(got[0]), &line); err != nil || len(got) != 1 ||
			line.RequestID != "a\n{\"\uFFFD" {
			t.Errorf("%q: %v, %+v", got, err, line)
		}
	})
}
