package activity

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// A reader of a ring lets others have the lock meanwhile.
func TestReadersLetOthersIn(t *testing.T) {
	l := New()
	for range keptRequests {
		l.requests.add(request{})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	in := false // guarded by mu
	go func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		in = true
	}()
	seekLocked(l, &l.requests, func(*request) bool {
		runtime.Gosched()
		return true
	})
	if !in {
		t.Error("nobody was let in")
	}
}

// A version that is loaded again and again leaves nothing behind.
func TestReloadsLeaveNothing(t *testing.T) {
	l := New()
	now := &catalog.Snapshot{}
	l.Watch(Config{Models: func() *catalog.Snapshot { return now }, Epoch: time.Now()})
	for i := range int32(10_000) {
		v := &catalog.Version{Model: "m", Number: 1, Replicas: []catalog.Replica{{Device: "cpu", Scheduler: i}}}
		now = &catalog.Snapshot{
			Models: now.Models.With("m", &catalog.Model{Name: "m", Versions: []*catalog.Version{v}}),
		}
		l.mu.Lock()
		l.lookLocked()
		l.mu.Unlock()
	}
	if len(l.places) != 1 || len(l.byID) > 2*atOnce || l.byID[9_999] == nil {
		t.Errorf("%d versions by %d numbers", len(l.places), len(l.byID))
	}
}

// TestMarks: a viewer to whom something is always under way has read as long as all comes that was sent before, and one
// to whom nothing comes any more has not.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent, lag int64
		v := &viewer{reads: func() (arrived, underWay int64) { return sent - lag, lag }, mark: mark{at: time.Now()}}
		began := time.Now()
		v.read.Store(&began)
		look := func(seconds int) (unread time.Duration) {
			for range seconds {
				time.Sleep(time.Second)
				v.look()
			}
			return time.Since(*v.read.Load())
		}
		for range 100 { // it reads, a frame late
			sent, lag = sent+1000, 1000
			if unread := look(1); unread > 2*time.Second {
				t.Fatalf("it reads, and has left something unread for %v", unread)
			}
		}
		lag += 500 // nothing of this comes any more
		sent += 500
		if unread := look(10); unread < 9*time.Second {
			t.Errorf("it does not read, and has left something unread for %v", unread)
		}
		if lag = 0; look(1) != 0 {
			t.Error("it has read all, and has left something unread")
		}
	})
}
