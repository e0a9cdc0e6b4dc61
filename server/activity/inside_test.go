package activity

import (
	"runtime"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Whoever looks through a ring lets others have the lock meanwhile.
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
