package ort_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// The time that a batch waits for its capture is bounded, as is the part of all time that goes into waiting.
func TestCapturePatience(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	for name, opening := range map[string]bool{"run": false, "opening": true} {
		t.Run(name, func(t *testing.T) {
			log := useFakeCUDA(t)
			initialise(t)
			synctest.Test(t, func(t *testing.T) {
				s, _ := openGraphs(t, neg())
				defer ort.Occupy(opening)()
				negate(t, s, 1, 2)
				var waits []time.Duration
				start := time.Now()
				for time.Since(start) < 10*time.Second {
					before := time.Now()
					negate(t, s, 3, 4)
					if wait := time.Since(before); wait > 0 {
						waits = append(waits, wait)
					}
					time.Sleep(10 * time.Millisecond)
				}
				const ms = time.Millisecond
				same(t, []time.Duration{4 * ms, 8 * ms, 16 * ms, 32 * ms, 32 * ms, 32 * ms},
					waits, "waits")
				if n := log.count(t, "cudaMalloc"); n != 0 {
					t.Error("captured beside others")
				}
			})
		})
	}
}

// A capture has no patience left for runs that it used up on models being opened.
func TestCapturePatienceForAll(t *testing.T) {
	useFakeCUDA(t)
	initialise(t)
	synctest.Test(t, func(t *testing.T) {
		s, _ := openGraphs(t, neg())
		negate(t, s, 1, 2)
		defer ort.Occupy(false)()
		leave := ort.Occupy(true)
		go func() {
			time.Sleep(3 * time.Millisecond)
			leave()
		}()
		start := time.Now()
		negate(t, s, 3, 4)
		if took := time.Since(start); took != 4*time.Millisecond {
			t.Errorf("waited %v, want 4ms", took)
		}
	})
}

// The patience that sufficed for one shape is that for the next, after a rest. Where nobody has to be waited for there
// is none.
func TestCapturePatienceIsKept(t *testing.T) {
	log := useFakeCUDA(t)
	initialise(t)
	synctest.Test(t, func(t *testing.T) {
		s, _ := openGraphs(t, neg())
		shape := func(rows int) []float32 { return make([]float32, 2*rows) }
		for rows := range 4 {
			negate(t, s, shape(rows+1)...)
		}
		// beside lets somebody be on the device who leaves after a while, and returns how long a run took.
		beside := func(busy time.Duration, rows int) time.Duration {
			t.Helper()
			leave := ort.Occupy(false)
			left := make(chan struct{})
			go func() {
				defer close(left)
				time.Sleep(busy)
				leave()
			}()
			start := time.Now()
			negate(t, s, shape(rows)...)
			took := time.Since(start)
			<-left
			return took
		}
		took := func(what string, got, want time.Duration, captured int) {
			t.Helper()
			if n := log.count(t, "cudaMalloc") / 2; got != want || n != captured {
				t.Errorf("%s: waited %v, %d captured; want %v and %d", what, got, n, want, captured)
			}
		}
		const ms = time.Millisecond
		took("first", beside(10*ms, 1), 4*ms, 0)
		time.Sleep(time.Second)
		took("again", beside(10*ms, 1), 8*ms, 0)
		time.Sleep(time.Second)
		took("long enough", beside(10*ms, 1), 10*ms, 1)
		took("at once", beside(10*ms, 2), 0, 1)
		time.Sleep(time.Second)
		took("next shape", beside(10*ms, 2), 10*ms, 2)
		time.Sleep(time.Second)
		took("alone", beside(0, 3), 0, 3)
		took("alone at once", beside(0, 4), 0, 4)
	})
}

// A capture keeps everybody else out until it ends, also one that takes long.
func TestCaptureKeepsOthersOut(t *testing.T) {
	for _, call := range []string{"cudaMalloc", "to device", "cudaStreamSynchronize"} {
		t.Run(call, func(t *testing.T) {
			useFakeCUDA(t)
			s, _ := openGraphs(t, neg())
			negate(t, s, 1, 2)
			hanging := hangCUDA(t, call)
			b := batchOf(t, s, floats(tensor.Shape{1, 2}, 3, 4))
			var err error
			var capture sync.WaitGroup
			capture.Go(func() { err = s.Run(t.Context(), b) })
			end := hanging()
			defer end()
			if !ort.Barred() {
				t.Error("nobody is kept out during a capture")
			}
			end()
			capture.Wait()
			if err != nil || weftest.Values(b.Outputs[0])[0] != -3 {
				t.Errorf("the batch of the capture: %v, %v", err, b.Outputs)
			}
			if ort.Barred() {
				t.Error("others are kept out although nobody captures")
			}
		})
	}
}
