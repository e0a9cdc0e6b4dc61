package worker

import (
	"runtime"
	"sync"
	"testing"
)

// TestBell: no ring is missed, whether the other side looks, is about to sleep, or sleeps.
func TestBell(t *testing.T) {
	memory := make([]byte, 2*bellBytes)
	// Each side has its own view of the memory, as two processes have.
	always := func() bool { return true }
	ask, asked := newBell(memory, waiter{}), newBell(memory, waiter{yield: yieldThread, keeps: always})
	answer, answered := newBell(memory[bellBytes:], waiter{}), newBell(memory[bellBytes:], callersWait())
	const rounds = 2000
	turns := 0 // whose access the bells order
	var other sync.WaitGroup
	other.Go(func() {
		for i := range rounds {
			if i%3 == 0 {
				asked.pause = 2 // sleep, and do not look
			}
			if err := asked.wait(); err != nil {
				t.Error(err)
				return
			}
			turns++
			answer.ring()
		}
	})
	for i := range rounds {
		ask.ring()
		if i%5 == 0 {
			answered.pause = 2
		}
		if err := answered.wait(); err != nil {
			t.Fatal(err)
		}
		if turns++; turns != 2*(i+1) {
			t.Fatalf("round %d: %d turns", i, turns)
		}
	}
	other.Wait()
}

// TestEndOfABell: a process that dies cannot have written anything that leaves the other side asleep.
func TestEndOfABell(t *testing.T) {
	memory := make([]byte, bellBytes)
	b, other := newBell(memory, callersWait()), newBell(memory, waiter{})
	b.pause = 1
	var waits sync.WaitGroup
	waits.Go(func() {
		if err := b.wait(); err != nil {
			t.Error(err)
		}
	})
	for other.asleep.Load() == 0 {
		runtime.Gosched()
	}
	other.asleep.Store(0)
	other.rung.Add(^uint32(0)) // so that one more is what it was
	b.end()
	waits.Wait()
}

// TestBellAlone: with one processor to use, of however many, a wait sleeps at once.
func TestBellAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	memory := make([]byte, bellBytes)
	wait := callersWait()
	wait.yield = func() { t.Error("it looks whether the bell rings") }
	b := newBell(memory, wait)
	var other sync.WaitGroup
	other.Go(newBell(memory, waiter{}).ring)
	if err := b.wait(); err != nil {
		t.Error(err)
	}
	other.Wait()
}

// TestKeptSleep: a sleeper that keeps its place does not keep others from running for good, though there
// is no other place.
func TestKeptSleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	memory := make([]byte, bellBytes)
	b := newBell(memory, waiter{alone: true, keeps: func() bool { return true }})
	var sleeper sync.WaitGroup
	sleeper.Go(func() {
		runtime.LockOSThread()
		if err := b.wait(); err != nil {
			t.Error(err)
		}
	})
	for b.asleep.Load() == 0 {
		runtime.Gosched()
	}
	newBell(memory, waiter{}).ring()
	sleeper.Wait()
}
