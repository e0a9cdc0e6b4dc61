package worker

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// sleepInEvent has the bell sleep in an eventfd, and returns that.
func sleepInEvent(t *testing.T, b *bell) (event int) {
	t.Helper()
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = b.sleepIn(event)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return event
}

// TestBell: no ring is missed, whether the other side looks, is about to sleep, or sleeps.
func TestBell(t *testing.T) {
	memory := make([]byte, 2*bellBytes)
	// Each side has its own view of the memory, as two processes have.
	always := func() bool { return true }
	ask, asked := newBell(memory, waiter{}), newBell(memory, waiter{yield: yieldThread, keeps: always})
	answer, answered := newBell(memory[bellBytes:], waiter{}), newBell(memory[bellBytes:], callersWait())
	answer.event = sleepInEvent(t, answered)
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

// TestEndOfABell: a process that dies cannot have written anything that leaves the other side asleep, or keeps it from
// waking up.
func TestEndOfABell(t *testing.T) {
	memory := make([]byte, bellBytes)
	b, other := newBell(memory, callersWait()), newBell(memory, waiter{})
	event := sleepInEvent(t, b)
	b.pause = 1
	var looks atomic.Int32
	hears := b.hears
	b.hears = func(event uintptr) bool {
		looks.Add(1)
		return hears(event)
	}
	var waits sync.WaitGroup
	waits.Go(func() {
		if err := b.wait(); err != nil {
			t.Error(err)
		}
	})
	for looks.Load() < 1 {
		runtime.Gosched()
	}
	if err := unix.SetNonblock(event, false); err != nil {
		t.Fatal(err)
	}
	full := binary.NativeEndian.AppendUint64(nil, math.MaxUint64-1) // the next write would block
	if _, err := unix.Write(event, full); err != nil {
		t.Fatal(err)
	}
	for looks.Load() < 2 { // of that write the other side says nothing
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
	b, ring := newBell(memory, wait), newBell(memory, waiter{})
	ring.event = sleepInEvent(t, b)
	var other sync.WaitGroup
	other.Go(ring.ring)
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
