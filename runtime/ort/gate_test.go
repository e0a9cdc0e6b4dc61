package ort_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/ort"
)

// A goroutine that shuts a gate is alone, and others that come meanwhile get in afterwards.
func TestGateShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g ort.Gate
		var inside atomic.Int32
		var done atomic.Bool
		var others sync.WaitGroup
		for range 8 {
			others.Go(func() {
				for !done.Load() {
					g.Enter()
					inside.Add(1)
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		defer others.Wait()
		defer done.Store(true)
		synctest.Wait()
		for range 20 {
			if !g.Shut(time.Second) {
				t.Fatal("the gate was not shut")
			}
			if n := inside.Load(); n != 0 {
				t.Fatalf("%d are inside a gate that is shut", n)
			}
			time.Sleep(3 * time.Millisecond)
			if n := inside.Load(); n != 0 {
				t.Fatalf("%d came in through a gate that is shut", n)
			}
			g.Open()
			synctest.Wait()
			if inside.Load() == 0 {
				t.Fatal("nobody comes in through an open gate")
			}
		}
	})
}

// A goroutine that waits for those inside gives up in time, and holds nobody up any more.
func TestGateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g ort.Gate
		g.Enter()
		entered := make(chan time.Duration)
		start := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			g.Enter()
			entered <- time.Since(start)
		}()
		if g.Shut(4 * time.Millisecond) {
			t.Fatal("shut, with somebody inside")
		}
		if took := <-entered; took != 4*time.Millisecond {
			t.Errorf("another was let in after %v, want 4ms", took)
		}
		g.Leave()
		g.Leave()
		if !g.Shut(0) {
			t.Error("not shut, although nobody is inside")
		}
		if g.Shut(time.Hour) {
			t.Error("shut twice")
		}
		g.Open()
		g.Enter()
	})
}
