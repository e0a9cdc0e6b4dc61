package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/rollout"
)

// judge tells the breaker how a version did.
func (s *Server) judge(call *catalog.Call, err error) {
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
	s.breaker.Done(v.Model, v.Number, outcome, call.Outcome.Compute)
}

// isFault reports whether it is surely the model that failed.
func isFault(err error) bool {
	e, ok := errors.AsType[*catalog.ModelError](err)
	return ok && e.Mates == 0
}

// observe tells a rollout how a request to a version ended.
func (s *Server) observe(at place, resp *weftv1.PredictResponse, err error) {
	if at.version == 0 || errors.Is(err, ErrSuperseded) { // nobody waits for it any more, and the one after it counts
		return
	}
	s.config.Rollouts.Observe(at.model, at.version, rollout.Ending{
		Code: codeName(err), Fault: isFault(err), Overload: isOverload(err),
		Compute: time.Duration(resp.GetExecution().GetComputeUs()) * time.Microsecond,
	})
}

// logBreaker tells of a version that is not fit any more, or is again.
func logBreaker(log *slog.Logger, b *breaker.State) {
	level := slog.LevelWarn
	if b.State == breaker.Closed {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "the circuit breaker of a version changed",
		"model", b.Model, "version", b.Version, "state", b.State, "because", b.Reason)
}
