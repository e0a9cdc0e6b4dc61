//go:build linux

package worker

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bell wakes the other process. It is two words of memory that both share. One side rings, and one goroutine of the
// other waits: in the worker its thread sleeps in futex(2), which wakes it fastest. In the server it waits in Go's
// poller for an eventfd. A thread that sleeps in a system call would keep its place in Go's scheduler from the requests
// that come meanwhile, until Go's watching thread takes it away, which itself wakes several times for that.
//
// To wake a thread on a processor that sleeps takes as long as to run a small model several times. So a thread looks
// for a while before it sleeps, and the other side makes a system call only for one that sleeps. It looks for about
// as long as wakes take: then looking and sleeping cost at most twice what they would if the length of the wait were
// known (Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive Spinning for a Shared-Memory
// Multiprocessor", SOSP 1991). Where the look found nothing, it is not tried again for 1, 3, 7, then 15 waits. Between
// two looks it lets others have the processor: it may be waiting for them.
type bell struct {
	rung   *atomic.Uint32 // how often it was rung
	asleep *atomic.Uint32 // 1: the one who waits has to be woken

	event int // the eventfd that wakes the other side; -1: futex(2) does

	// Of the one who waits:
	waiter
	heard atomic.Uint32      // rung, as of the latest wait
	file  *os.File           // the eventfd in which it sleeps; nil: futex(2)
	poll  syscall.RawConn    // of file
	hears func(uintptr) bool // reports whether it was rung since the last wait
	pause int                // for so many waits it does not look
	vain  int                // how often in a row looking found nothing
}

// waiter is how a side waits.
type waiter struct {
	yield func() // lets others have the processor
	alone bool   // there is one processor: looking keeps the other side from running
	// keeps reports whether its thread keeps its place in Go's scheduler while it sleeps: see keptSleep. Nil: it does not.
	keeps func() bool
}

const (
	bellBytes = 64                     // two bells are not in one cache line
	lookFor   = 200 * time.Microsecond // two wakes: the other side may have been asleep, too
	longLook  = 20 * time.Microsecond  // a longer one says that others had the processor
	maxVain   = 4
)

func newBell(memory []byte, by waiter) *bell {
	word := func(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&memory[at])) }
	return &bell{rung: word(0), asleep: word(4), waiter: by, event: -1}
}

// sleepIn has this side wait in Go's poller, for an eventfd that does not block. The poller reports each write once, so
// nobody reads the eventfd. The bell closes it.
func (b *bell) sleepIn(event int) (err error) {
	b.file = os.NewFile(uintptr(event), "bell")
	b.hears = func(uintptr) bool { return b.rung.Load() != b.heard.Load() }
	if b.poll, err = b.file.SyscallConn(); err != nil {
		return err
	}
	return b.file.SetReadDeadline(time.Time{}) // fails where the poller did not take it
}

// close gives back what the wait uses. Nobody waits.
func (b *bell) close() { _ = b.file.Close() } // of nil, too

// yieldThread lets threads of other processes have the processor: in a worker no goroutine waits for it.
func yieldThread() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it always succeeds
}

// The operations of futex(2), between processes.
const (
	futexWait = 0
	futexWake = 1
)

// ring ends the present wait of the other side, or else its next one.
func (b *bell) ring() {
	b.rung.Add(1)
	if b.asleep.Load() != 0 {
		b.wake()
	}
}

// end ends the present wait of this side, or else its next one, when the other side is dead: whatever it has
// written. It does not write to the eventfd: the other side may have filled it and made writes block.
func (b *bell) end() {
	b.rung.Store(b.heard.Load() + 1)
	_ = b.file.SetReadDeadline(time.Unix(1, 0)) // an eventfd has deadlines
}

// one is what a ring adds to an eventfd.
var one = uint64(1)

// wake wakes the side that waits. Neither call blocks, so that Go's scheduler need not know of it.
func (b *bell) wake() {
	if b.event >= 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(b.event), uintptr(unsafe.Pointer(&one)), 8)
		return
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.rung)), futexWake, 1, 0, 0, 0)
}

// wait returns once the bell has been rung since the last wait.
func (b *bell) wait() error {
	heard := b.heard.Load()
	defer func() { b.heard.Store(b.rung.Load()) }()
	switch {
	case b.alone:
	case b.pause > 0:
		b.pause--
	case b.look(heard):
		b.vain = 0
		return nil
	default:
		b.vain = min(b.vain+1, maxVain)
		b.pause = 1<<b.vain - 1
	}
	b.asleep.Store(1)
	defer b.asleep.Store(0)
	if b.poll != nil {
		if err := b.poll.Read(b.hears); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil // the other side is dead
	}
	for keeps := b.keeps != nil && b.keeps(); b.rung.Load() == heard; {
		var fault unix.Errno
		if keeps {
			fault = b.keptSleep(heard)
			keeps = false // it was not the bell: somebody else needs the place, or nothing has happened for long
		} else {
			_, _, fault = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.rung)), futexWait, uintptr(heard), 0, 0, 0)
		}
		switch fault {
		case 0, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		default:
			return fault
		}
	}
	return nil
}

// keptSleep sleeps without telling Go, which takes the thread for one that computes. A thread that Go knows to sleep
// loses its place in Go's scheduler. To see to that and to find it another takes three to five switches of threads:
// where all share one processor, more time than a small model. Nothing else of the process runs meanwhile. So it is for
// a lane that is alone there, and any signal ends it: Go sends one to a thread that seems to have computed for ten
// milliseconds. (Where there are more processors, Go would look again and again at what other lanes do meanwhile, and
// interrupt them.)
func (b *bell) keptSleep(heard uint32) unix.Errno {
	// Without a timeout, the kernel would go on sleeping after a signal.
	timeout := unix.Timespec{Nsec: int64(100 * time.Millisecond)}
	_, _, fault := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.rung)), futexWait, uintptr(heard),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	return fault
}

// look reports whether the bell is rung soon. It gives up when others want the processor.
func (b *bell) look(heard uint32) bool {
	began := time.Now()
	for last := began; b.rung.Load() == heard; {
		b.yield()
		now := time.Now()
		if now.Sub(last) > longLook || now.Sub(began) > lookFor {
			return b.rung.Load() != heard
		}
		last = now
	}
	return true
}
