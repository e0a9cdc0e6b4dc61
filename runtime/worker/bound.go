//go:build linux

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A process is looked at again after the time in which the processors could fill what is left of its bound, so that one
// that is far from it costs little. It exceeds its bound by what it takes in shortestLook, or more where the looks come
// late on a busy machine.
const (
	fastestFill  = 32 << 30 // bytes per second
	shortestLook = 5 * time.Millisecond
	longestLook  = 50 * time.Millisecond
	// quietLooks is after how many looks without a change the looks come as seldom as idleLook.
	quietLooks = 20
	idleLook   = 500 * time.Millisecond
)

// usage is the memory of a process that is its own: anonymous pages that are resident. Memory that it shares is not
// counted: that of batches is the server's, which bounds it, and pages of libraries and of copies of models on disk
// can be taken back.
type usage struct {
	statm *os.File // nil: it is not known
}

// newUsage finds the memory of a process that is not waited for yet. The error is that there is no descriptor for it;
// where there is no /proc it is not known.
func newUsage(pid int) (usage, error) {
	// The open file stays that of this process when another one gets its number.
	statm, err := os.Open("/proc/" + strconv.Itoa(pid) + "/statm")
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return usage{}, err
	}
	return usage{statm}, nil // a nil file where there was another error
}

// read returns the bytes; 0 where the process has ended.
func (u usage) read() int64 {
	if u.statm == nil {
		return 0
	}
	var text [128]byte
	n, _ := u.statm.ReadAt(text[:], 0) // an error says that the process has ended, or that this is all
	fields := bytes.Fields(text[:n])   // all pages, resident ones, those of them that are shared, ...
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}

func (u usage) close() {
	if u.statm != nil {
		_ = u.statm.Close() // it was only read
	}
}

// watch ends the process once it takes more memory than its bound.
func (p *process) watch() {
	var before int64
	for quiet := 0; ; {
		used, bound := p.usage.read(), p.bound.Load()
		if used > p.most.Load() {
			p.most.Store(used)
		}
		if used > bound {
			p.exceed(bound)
			return
		}
		if quiet++; used != before {
			quiet = 0
		}
		before = used
		longest := longestLook
		if quiet > quietLooks {
			longest = idleLook
		}
		left := time.Duration(float64(bound-used) / fastestFill * float64(time.Second))
		select {
		case <-p.ended:
			return
		case <-p.stirred:
			quiet = 0
		case <-time.After(min(max(left, shortestLook), longest)):
		}
	}
}

// stir has the process looked at now, because it is going to take memory, or its bound is another one.
func (p *process) stir() {
	select {
	case p.stirred <- struct{}{}:
	default:
	}
}

// exceed ends the process because it takes more memory than it may.
func (p *process) exceed(bound int64) {
	p.finish(killing{
		why:   fmt.Sprintf("it took more than the %d MiB of memory that --worker-memory leaves it", bound>>20),
		byRun: true, exceeded: bound,
	})
}

// peak returns the most memory that the process was seen to take.
func (p *process) peak() int64 { return max(p.most.Load(), p.usage.read()) }

// confine leaves a run in a quarantine process, where its session is open, as much memory as it has in the worker,
// where the others are open, too: else a run that the worker cannot have would be answered in quarantine, and end the
// worker again and again.
//
// The others take at most the sum of what each took when it was opened by itself. Together they may take less, because
// they share what the engine holds once for all: so a run also has at least what the bound leaves to it in the worker,
// beyond what the quarantine process takes without it. Else it could be ended for what it does not take.
func (w *Worker) confine(p *process, of *Session) {
	bound := w.pool.cfg.Memory
	if bound == 0 {
		return
	}
	apart := bound
	for _, s := range w.list() {
		if s != of {
			apart -= s.took.held
		}
	}
	together := p.usage.read() + max(0, bound-w.rest.Load())
	p.bound.Store(min(bound, max(apart, together)))
	p.stir()
}

// Memory returns how much memory of its own the process of each worker takes, and how much it may; 0: any.
func (p *Pool) Memory() (used map[string]int64, bound int64) {
	used = map[string]int64{}
	for _, w := range p.list() {
		w.mu.Lock()
		if w.process != nil {
			used[w.name] = w.process.usage.read()
		}
		w.mu.Unlock()
	}
	return used, p.cfg.Memory
}

// Held returns how much of that models took, in all workers together: what their processes take more than an empty one.
func (p *Pool) Held() (bytes int64) {
	for _, w := range p.list() {
		w.mu.Lock()
		if w.process != nil {
			bytes += max(0, w.process.usage.read()-w.process.empty)
		}
		w.mu.Unlock()
	}
	return bytes
}
