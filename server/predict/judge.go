package predict

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
)

// judge reports to the breaker how a version did.
func (p *Pipeline) judge(call *catalog.Call, err error) {
	v, outcome := call.Version, breaker.OK
	if err == nil && v.TargetLatency > 0 && p.computed(call) > v.TargetLatency {
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

// computed returns how long the model took for an answer that has just come.
func (p *Pipeline) computed(call *catalog.Call) time.Duration {
	took := call.Outcome.Compute
	return max(0, took-p.config.Clock.Lost(time.Now().Add(-took)))
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
