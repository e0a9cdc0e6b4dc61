package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	jitter     = 0.2
)

// backoff is how long to wait after so many failed attempts in a row: twice as long each time, spread so that what failed
// together is not tried again together.
func backoff(attempts int) time.Duration {
	wait := lastRetry
	if n := attempts - 1; n < 9 { // 2⁹ s are more than lastRetry
		wait = min(firstRetry<<n, lastRetry)
	}
	return time.Duration(float64(wait) * (1 + jitter*(2*rand.Float64()-1)))
}

// fail publishes and logs that a version could not be loaded, and has it tried again later. What serves under its number goes on.
func (h *Host) fail(ctx context.Context, c candidate, cause error) {
	interrupted := ctx.Err() != nil // nothing is wrong with the model then
	attempts, wait := 1, time.Duration(0)
	f := &failure{of: c, cause: cause}
	h.updateVersion(c.model, c.version.Number, func(e *entry, public *catalog.Version) {
		if e.failure != nil && e.failure.of.alike(c) {
			attempts = e.failure.attempts + 1
		}
		f.attempts = attempts
		hidden := c.hide(cause)
		text := hidden.Text
		if !h.cfg.TryOnce && !h.closed {
			wait = backoff(attempts)
			f.timer = time.AfterFunc(wait, func() { h.retry(c.model, f) })
			if attempts > 1 {
				text = fmt.Sprintf("%s (attempt %d, next in %v)", text, attempts, wait.Round(100*time.Millisecond))
			}
		}
		e.loading, e.failure, public.Fault = false, f, hidden
		if f.isShort() {
			h.short[c.model] = struct{}{}
		}
		if e.resident != nil {
			public.Cause = "what lies under its number now cannot be loaded, so that it goes on as it was: " + text
			return
		}
		public.State, public.Cause = catalog.Failed, text
	})
	level := slog.LevelInfo
	if !interrupted {
		level = slog.LevelError
		h.counts.failures.Add(1)
	}
	attrs := []any{"model", c.model, "version", c.version.Number, "path", c.path(), "cause", cause}
	if wait > 0 {
		attrs = append(attrs, "attempt", attempts, "next_in", wait.Round(time.Millisecond))
	}
	h.log.Log(ctx, level, "a model version cannot be loaded", attrs...)
	if _, is := errors.AsType[*catalog.MemoryError](cause); is {
		h.retryIfRoom(f)
	} else if !f.isUnplaced() {
		h.retryForMemory() // what it took until it failed
	}
}

// retryIfRoom makes a version due that failed for want of memory, if there is enough by now: what was given back before its failure
// was published woke nobody.
func (h *Host) retryIfRoom(f *failure) {
	free := h.memory.free()
	h.mu.Lock()
	f.due = f.due || f.fitsInto(free)
	h.mu.Unlock()
}

// retry makes a failed version due.
func (h *Host) retry(name string, f *failure) {
	h.mu.Lock()
	f.due = true
	h.mu.Unlock()
	h.settleLater(name)
}

// hasten makes all versions due that failed. The caller holds Host.mu.
func (m *model) hasten() {
	for _, e := range m.versions {
		if e.failure != nil {
			e.failure.due = true
		}
	}
}

// fitsInto reports whether the failure is for want of memory, is tried again by itself, and would not be with so many free bytes.
func (f *failure) fitsInto(free int64) bool {
	e, is := errors.AsType[*catalog.MemoryError](f.cause)
	return is && f.timer != nil && e.Need <= free
}

// isUnplaced reports whether the failure is that no device had room, and is tried again by itself.
func (f *failure) isUnplaced() bool {
	_, is := errors.AsType[*catalog.PlacementError](f.cause)
	return is && f.timer != nil
}

// isShort reports whether the failure is for want of memory, and is tried again by itself.
func (f *failure) isShort() bool {
	_, is := errors.AsType[*catalog.MemoryError](f.cause)
	return is && f.timer != nil || f.isUnplaced()
}

// retryForMemory makes versions due that failed for want of memory and for which there is enough now, or may be: how
// much a device has is asked when a version is placed.
func (h *Host) retryForMemory() {
	var waiting []string
	free := h.memory.free()
	h.mu.Lock()
	for name := range h.short {
		still := false
		if m := h.models[name]; m != nil {
			for _, e := range m.versions {
				if e.failure == nil || !e.failure.isShort() {
					continue
				}
				still = true
				if e.failure.fitsInto(free) || e.failure.isUnplaced() {
					e.failure.due = true
					waiting = append(waiting, name)
				}
			}
		}
		if !still {
			delete(h.short, name)
		}
	}
	h.mu.Unlock()
	for _, name := range waiting {
		h.settleLater(name)
	}
}
