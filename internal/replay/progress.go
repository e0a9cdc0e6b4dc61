package replay

import (
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	shown "github.com/weftserve/weft/internal/progress"
	"github.com/weftserve/weft/internal/record"
)

// progress shows how far a replay is. The sender, the goroutines that wait for answers and the line's own call it.
type progress struct {
	*shown.Line

	// The sender counts, and the line of progress reads.
	mu       sync.Mutex
	start    time.Time
	sent     int64   // guarded by mu
	ended    int64   // guarded by mu
	failed   int64   // guarded by mu
	read     int64   // guarded by mu; entries
	part     float64 // guarded by mu; of the files' bytes that was read
	before   int64   // guarded by mu; ended when it was shown last
	beforeAt time.Time
}

// newProgress begins to show progress.
func newProgress(out io.Writer) *progress {
	now := time.Now()
	p := &progress{start: now, beforeAt: now}
	p.Line = shown.Start(out, "replaying", p.text)
	return p
}

// reading passes entries on, and notes how much of the files was read.
func (p *progress) reading(from *record.Reader,
	entries iter.Seq2[*record.Entry, error],
) iter.Seq2[*record.Entry, error] {
	return func(yield func(*record.Entry, error) bool) {
		for e, err := range entries {
			read, total := from.Progress()
			p.mu.Lock()
			p.read++
			// Files that were still being written have more bytes than they were listed with; Progress bounds that.
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

// sending counts a request that is about to be sent.
func (p *progress) sending() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
}

// done counts a request that ended.
func (p *progress) done(failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	if failed {
		p.failed++
	}
}

// text returns how far it is, with the rate since the previous call.
func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	line := fmt.Sprintf("sent %d, failed %d, %.0f/s", p.sent, p.failed,
		float64(p.ended-p.before)/now.Sub(p.beforeAt).Seconds())
	p.before, p.beforeAt = p.ended, now
	// The entries read ahead are known by number, the rest by its bytes.
	if whole := float64(p.ended) / float64(max(p.read, 1)) * p.part; whole > 0 {
		line += fmt.Sprintf(", %.0f %%", 100*whole) + shown.Left(now.Sub(p.start), whole)
	}
	return line
}
