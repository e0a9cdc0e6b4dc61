package predict

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// withheldPause is the shortest time between two log lines about errors whose text is withheld from callers: a caller
// all of whose requests fail must not fill the log.
const withheldPause = time.Second

// withheld logs errors that callers get only a part of.
type withheld struct {
	log *slog.Logger

	mu     sync.Mutex
	next   time.Time // guarded by mu; when there may be another line
	passed int       // guarded by mu; how many there were since the last
}

// tell logs err, if its caller does not get all of it.
func (w *withheld) tell(ctx context.Context, f *flight, e *Explanation, err error) {
	if err == nil || e.Text == err.Error() {
		return
	}
	w.mu.Lock()
	now := time.Now()
	if now.Before(w.next) {
		w.passed++
		w.mu.Unlock()
		return
	}
	passed := w.passed
	w.next, w.passed = now.Add(withheldPause), 0
	w.mu.Unlock()
	w.log.WarnContext(ctx, "request failed, cause partly withheld from its caller", "event", "cause_withheld",
		"model", f.result.Model, "version", f.result.Version, "request_id", Clip(f.req.ID), "cause", err,
		"others_since", passed)
}
