package protect

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// turns are as many as there are processors. That many large messages are worked on at a time: more would take more
// memory, and no less time.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// Turn is that of a large message. The zero value has not begun. It belongs to one goroutine, which must End it.
type Turn struct {
	began bool
	steps int // since others had the processor
}

// Begin waits for the turn, unless it has begun.
func (t *Turn) Begin() {
	if !t.began {
		turns <- struct{}{}
		t.began = true
	}
}

// Step counts steps of the work, of some 20 ns each. After about a third of a millisecond others get the processor:
// callers of small messages should not wait for large ones.
func (t *Turn) Step(n int) {
	const most = 1 << 14
	if t.steps += n; t.steps < most {
		return
	}
	t.steps = 0
	if cap(turns) > 1 {
		runtime.Gosched()
	} else {
		rest()()
	}
}

// End lets the next one begin.
func (t *Turn) End() {
	if t.began {
		t.began = false
		<-turns
	}
}

// rest lets all others have the only processor who could, those too whom the network has brought something: Go does not
// look at the network as long as anything else is there to do, not even in Gosched. It waits for a byte of its own.
var rest = sync.OnceValue(func() func() {
	var mu sync.Mutex
	own, brings, err := os.Pipe()
	if err != nil {
		return sleep
	}
	raw, err := own.SyscallConn()
	if err != nil {
		return sleep
	}
	one := []byte{0}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		sent := false
		err := raw.Read(func(fd uintptr) bool {
			if sent {
				_, err := syscall.Read(int(fd), one)
				return err != syscall.EAGAIN
			}
			_, err := brings.Write(one)
			sent = err == nil
			return !sent
		})
		if err != nil || !sent {
			sleep()
		}
	}
})

// sleep is how others get the processor where there is no pipe: Go looks at the network when nothing can run.
func sleep() { time.Sleep(100 * time.Microsecond) }
