package replay

import (
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/weftserve/weft/internal/record"
)

// How often progress is shown.
const (
	progressOnTerminal = 200 * time.Millisecond
	progressInLog      = 10 * time.Second
)

// progress shows how far a replay is: on a terminal in one line that is rewritten, else in a line now and then.
type progress struct {
	out      io.Writer
	terminal bool

	mu           sync.Mutex // held while out is written
	start        time.Time
	sent         int64   // guarded by mu
	ended        int64   // guarded by mu
	failed       int64   // guarded by mu
	read         int64   // guarded by mu; entries
	part         float64 // guarded by mu; of the files' bytes that was read
	before       int64   // guarded by mu; ended when it was shown last
	beforeAt     time.Time
	lineIsThere  bool // guarded by mu; on the terminal
	stop, closed chan struct{}
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	p := &progress{out: out, start: now, beforeAt: now, stop: make(chan struct{}), closed: make(chan struct{})}
	every := progressInLog
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, every = true, progressOnTerminal
		}
	}
	go p.run(every)
	return p
}

func (p *progress) run(every time.Duration) {
	defer close(p.closed)
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			p.tell()
		case <-p.stop:
			return
		}
	}
}

// close ends it and removes its line from the terminal.
func (p *progress) close() {
	close(p.stop)
	<-p.closed
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
}

// reading passes entries on and takes in how far the files were read.
func (p *progress) reading(from *record.Reader,
	entries iter.Seq2[*record.Entry, error],
) iter.Seq2[*record.Entry, error] {
	return func(yield func(*record.Entry, error) bool) {
		for e, err := range entries {
			read, total := from.Progress()
			p.mu.Lock()
			p.read++
			p.part = float64(read) / float64(max(total, 1))
			p.mu.Unlock()
			if !yield(e, err) {
				return
			}
		}
		p.mu.Lock()
		p.part = 1
		p.mu.Unlock()
	}
}

func (p *progress) sending() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
}

func (p *progress) done(failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	if failed {
		p.failed++
	}
}

// Write writes something else than progress.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
	return p.out.Write(text)
}

func (p *progress) clearLocked() {
	if p.lineIsThere {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.lineIsThere = false
	}
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	line := fmt.Sprintf("sent %d, failed %d, %.0f/s", p.sent, p.failed,
		float64(p.ended-p.before)/now.Sub(p.beforeAt).Seconds())
	p.before, p.beforeAt = p.ended, now
	// The entries read ahead are known by number, the rest by its bytes.
	if whole := float64(p.ended) / float64(max(p.read, 1)) * p.part; whole > 0 {
		left := time.Duration(float64(now.Sub(p.start)) * (1 - whole) / whole)
		line += fmt.Sprintf(", %.0f %%, about %v left", 100*whole, left.Round(time.Second))
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
		p.lineIsThere = true
	} else {
		fmt.Fprintln(p.out, "replaying: "+line)
	}
}
