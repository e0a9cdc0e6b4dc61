package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/shadow"
)

// Shadows runs requests once more on other versions, in spare time.
type Shadows interface {
	// Offer never blocks and never fails: what there is no room for is dropped and counted.
	Offer(shadow.Offer)
	// Summaries returns how the shadows of a model compare, of all models for "".
	Summaries(model string) []shadow.Summary
}

// Recorder keeps requests and answers.
type Recorder interface {
	// Record never blocks: what there is no room for is dropped and counted. It must not change what it gets.
	Record(*Recorded)
}

// Recorded is a request and what came of it.
type Recorded struct {
	At      time.Time
	Request *weftv1.PredictRequest
	// Response is nil where the request was not answered; Code and Message tell why then.
	Response      *weftv1.PredictResponse
	Code, Message string
	Model         string
	Version       int64
	Slot          string
	// Limit is the time that the caller gave, 0 for none.
	Limit time.Duration
}

// route finds the version that answers a request.
func (s *Server) route(req *weftv1.PredictRequest, serial uint64) (routing.Route, error) {
	return s.router.Route(s.models.Snapshot(), routing.Request{
		Model: req.GetModel().GetName(), Choice: choiceOf(req.GetModel()),
		Episode: req.GetEpisodeId(), RequestID: req.GetRequestId(), Serial: serial,
	})
}

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

// shadow offers an answered call to the versions in its shadow.
func (s *Server) shadow(req *weftv1.PredictRequest, call *catalog.Call, route *routing.Route) {
	if len(route.Shadows) == 0 || s.config.Shadows == nil {
		return
	}
	m := s.models.Snapshot().Model(call.Version.Model)
	if m == nil {
		return
	}
	o := shadow.Offer{Primary: call, Slot: route.Slot, RequestID: req.GetRequestId(), Episode: req.GetEpisodeId()}
	for _, target := range route.Shadows {
		if v := m.Version(target.Version); v != nil && v.State == catalog.Ready {
			o.Shadows = append(o.Shadows, shadow.Target{Version: v, Tolerance: target.Tolerance})
		}
	}
	if len(o.Shadows) > 0 {
		s.config.Shadows.Offer(o)
	}
}

func recorded(arrival, limit time.Time, req *weftv1.PredictRequest, resp *weftv1.PredictResponse, at place, err error) *Recorded {
	r := &Recorded{
		At: arrival, Request: req, Response: resp, Code: codeName(err),
		Model: at.model, Version: at.version, Slot: at.slot,
	}
	if !limit.IsZero() {
		r.Limit = max(time.Microsecond, limit.Sub(arrival))
	}
	if err != nil {
		r.Response, r.Message = nil, clip(err.Error())
	}
	return r
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
