package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
)

// judge tells the breaker and a rollout how a version did.
func (s *Server) judge(call *catalog.Call, err error) {
	v, outcome := call.Version, breaker.OK
	if err == nil && v.TargetLatency > 0 && call.Outcome.Compute > v.TargetLatency {
		outcome = breaker.Slow // the model alone takes longer than is wanted, wherever the request waited
	}
	if err != nil {
		outcome = breaker.Ignored // overload, a caller that went away, an input that only fails itself, or may have been another's fault
		if e, ok := errors.AsType[*catalog.ModelError](err); ok && e.Mates == 0 && !e.Batch {
			outcome = breaker.Fault
		}
	}
	compute := call.Outcome.Compute
	s.breaker.Done(v.Model, v.Number, outcome, compute)
	if outcome != breaker.Ignored && s.config.Rollouts != nil {
		s.config.Rollouts.Observe(v.Model, v.Number, outcome == breaker.Fault, compute)
	}
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
