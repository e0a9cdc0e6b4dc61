package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// withheldPause is how often the log tells at most of what callers are not told: somebody who sends nothing but what fails must not
// fill it.
const withheldPause = time.Second

// withheld logs errors of requests of which their callers read a part only.
type withheld struct {
	log *slog.Logger

	mu     sync.Mutex
	next   time.Time // guarded by mu; when there may be another line
	passed int       // guarded by mu; how many there were since the last
}

// tell logs err, if its caller is not told all of it.
func (w *withheld) tell(ctx context.Context, req *weftv1.PredictRequest, at place, err error) {
	if f := faultOf(err); f.text(err) == err.Error() {
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
	w.log.WarnContext(ctx, "a request failed and its caller is told a part of the cause", "model", at.model, "version", at.version,
		"request_id", clip(req.GetRequestId()), "cause", err, "others_since", passed)
}
