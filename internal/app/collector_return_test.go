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
	for i := 0; i < len(burst); i += 4096 { // each page
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

// TestLook: a heap is looked at when it rests, more and more rarely if nothing comes of it, and soon again once it has
// been at work.
func TestLook(t *testing.T) {
	l := &look{}
	full, small := heapUse{cycles: 1, bytes: 10 * returnable}, heapUse{cycles: 1, bytes: returnable}
	if l.due(full) || l.due(small) || !l.due(full) {
		t.Error("not looked at when it has rested, or before")
	}
	l.found(full, heapUse{cycles: 2, bytes: full.bytes})
	for _, want := range []int{2, 4, 8, 16, 32, 64, 120, 120} {
		ticks := 1
		for cycles := l.cycles; !l.due(heapUse{cycles: cycles, bytes: full.bytes}); ticks++ {
			if ticks > 200 {
				t.Fatal("not looked at any more")
			}
		}
		if ticks != want {
			t.Errorf("looked at after %d times, want %d", ticks, want)
		}
		l.found(full, heapUse{cycles: l.cycles + 1, bytes: full.bytes})
	}
	if l.due(heapUse{cycles: l.cycles + 1, bytes: full.bytes}) || !l.due(heapUse{cycles: l.cycles, bytes: full.bytes}) {
		t.Error("not looked at soon after it was at work")
	}
	if l.due(heapUse{l.cycles, full.bytes, restful + 1}) {
		t.Error("looked at while it allocates")
	}
	if l.found(full, small); l.wait != lookAfter {
		t.Error("a look that found much is not followed by another soon")
	}
}
