package predict

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
)

// judge reports to the breaker how a version did.
func (p *Pipeline) judge(call *catalog.Call, err error) {
	v, outcome := call.Version, breaker.OK
	if err == nil && v.TargetLatency > 0 && call.Outcome.Compute > v.TargetLatency {
		outcome = breaker.Slow // the model alone takes longer than is wanted, wherever the request waited
	}
	if err != nil {
		outcome = breaker.Ignored // overload, a caller that went away, or an input that only fails itself
		if isFault(err) {
			outcome = breaker.Fault
		}
	}
	p.breaker.Done(v.Model, v.Number, outcome)
}

// isFault reports whether it is surely the model that failed.
func isFault(err error) bool {
	e, ok := errors.AsType[*catalog.ModelError](err)
	return ok && e.Mates == 0
}

// logBreaker logs that a version is not fit any more, or is again.
func logBreaker(log *slog.Logger, b *breaker.State) {
	level := slog.LevelWarn
	if b.State == breaker.Closed {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "circuit breaker changed", "event", "breaker_changed",
		"model", b.Model, "version", b.Version, "state", b.State, "cause", b.Reason)
}
