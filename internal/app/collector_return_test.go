package app

import (
	"runtime"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

// TestReturn: what a burst took is given back to the system soon, though nothing collects the heap.
func TestReturn(t *testing.T) {
	part := returnPart()
	ended := make(chan error, 1)
	burst := make([]byte, 8*returnable)
	for i := range burst {
		burst[i] = 1
	}
	runtime.GC() // which finds it in use
	runtime.KeepAlive(burst)
	go func() { ended <- part.Run() }()
	weftest.Until(t, "the burst is kept", func() bool { return readHeap().bytes < 2*returnable })
	if err := part.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRests(t *testing.T) {
	for name, c := range map[string]struct {
		now, before, least heapUse
		want               bool
	}{
		"it has grown":         {heapUse{1, 10 + returnable + 1}, heapUse{1, 0}, heapUse{0, 10}, true},
		"by as much as it may": {heapUse{1, 10 + returnable}, heapUse{1, 0}, heapUse{0, 10}, false},
		"it is at work":        {heapUse{2, 10 * returnable}, heapUse{1, 0}, heapUse{0, 0}, false},
		"it has shrunk":        {heapUse{1, 10}, heapUse{1, 20}, heapUse{0, 20}, false},
	} {
		if got := c.now.rests(c.before, c.least); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
