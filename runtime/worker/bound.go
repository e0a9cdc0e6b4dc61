//go:build linux

package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// A process is looked at again after the time in which the processors could fill what is left of its bound, so that one
// that is far from it costs little. It exceeds its bound by what it takes in shortestLook, or more where the looks come
// late on a busy machine.
const (
	fastestFill  = 32 << 30 // bytes per second
	shortestLook = 5 * time.Millisecond
	longestLook  = 50 * time.Millisecond
)

// usage is the memory of a process that is its own: anonymous pages that are resident. Memory that it shares is not
// counted: that of batches is the server's, which bounds it, and pages of libraries and of copies of models on disk
// can be taken back.
type usage struct {
	statm *os.File // nil: it is not known
}

// newUsage finds the memory of a process that is not waited for yet.
func newUsage(pid int) usage {
	// The open file stays that of this process when another one gets its number.
	statm, err := os.Open("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return usage{}
	}
	return usage{statm}
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
	for {
		used, bound := p.usage.read(), p.bound.Load()
		if used > p.most.Load() {
			p.most.Store(used)
		}
		if used > bound {
			p.exceed(bound)
			return
		}
		left := time.Duration(float64(bound-used) / fastestFill * float64(time.Second))
		select {
		case <-p.ended:
			return
		case <-time.After(min(max(left, shortestLook), longestLook)):
		}
	}
}

// exceed ends the process because it takes more memory than it may.
func (p *process) exceed(bound int64) {
	p.finish(verdict{
		why:    fmt.Sprintf("it took more than the %d MiB of memory that --worker-memory leaves it", bound>>20),
		blamed: true, exceeded: bound,
	})
}

// peak returns the most memory that the process was seen to take.
func (p *process) peak() int64 { return max(p.most.Load(), p.usage.read()) }

// taken is the memory in bytes that opening a model took by itself: the most, and what it held in the end.
type taken struct{ peak, held int64 }

// admit returns an error if opening a model in a process of the worker would exceed the bound. It may fit elsewhere.
func (w *Worker) admit(p *process, took taken) error {
	bound := w.pool.cfg.Memory
	if used := p.usage.read(); bound > 0 && used+took.peak > bound {
		return &engine.Error{Kind: engine.OutOfMemory, Err: fmt.Errorf("opening the model takes %d MiB of memory, and the "+
			"engine's process %s has %d of %d MiB left; raise --worker-memory, unload other models, or run each model in a "+
			"process of its own (--isolation model)", took.peak>>20, w.name, max(0, bound-used)>>20, bound>>20)}
	}
	return nil
}

// confine leaves a session in a quarantine process as much memory as it has in the worker, where the others are open,
// too: else a run that the worker cannot have would be answered in quarantine, and end the worker again and again.
func (w *Worker) confine(p *process, of *Session) {
	bound := w.pool.cfg.Memory
	if bound == 0 {
		return
	}
	for _, s := range w.list() {
		if s != of {
			bound -= s.held
		}
	}
	p.bound.Store(bound)
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
