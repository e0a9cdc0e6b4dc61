package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
)

// weights loads two models, of which one has twice the weight and other batches, with more than the device can do. The
// part of each is the device time that its flow was charged, according to GetSchedulerState.
func (s *suite) weights(ctx context.Context) (err error) {
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository := s.repository("weights")
	doublePath, err1 := h.place(repository, "double", s.provider(), 2, h.layers)
	singlePath, err2 := h.place(repository, "single", s.provider(), 1, h.layers/2)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	doubleAlone, err1 := s.engine.loop(doublePath, h.rows, 1, s.Span/10)
	singleAlone, err2 := s.engine.loop(singlePath, h.rows, 1, s.Span/10)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	v, err := s.serve(ctx, s.folder("weights"), repository)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	double := &load{request: h.request("double"), callers: h.callersOf(4)}
	single := &load{request: h.request("single"), callers: h.callersOf(4)}
	stop := start(ctx, v.conns, double, single)
	defer stop()
	if err := wait(ctx, s.Span/4); err != nil {
		return err
	}
	before, err := v.charged(ctx)
	if err != nil {
		return err
	}
	doubleCalls, singleCalls := double.calls.Load(), single.calls.Load()
	// Within a fairness window either may be ahead when the time ends: the time must be long compared with the window.
	if err := wait(ctx, 2*s.Span); err != nil {
		return err
	}
	after, err := v.charged(ctx)
	if err != nil {
		return err
	}
	doubleCalls, singleCalls = double.calls.Load()-doubleCalls, single.calls.Load()-singleCalls
	twofold, once := after["double"]-before["double"], after["single"]-before["single"]
	if err := errors.Join(double.err(), single.err()); err != nil {
		return err
	}
	if once <= 0 {
		return fmt.Errorf("GetSchedulerState says that the models were given %.0f and %.0f ms of device time", twofold,
			once)
	}
	ratio := twofold / once
	// The same by the rows answered: the charge of the flows is the scheduler's own measure.
	worth := float64(doubleCalls) / doubleAlone.perSecond / (float64(singleCalls) / singleAlone.perSecond)
	s.report.timed("weights 2:1: device time", fmt.Sprintf("2 ± %g %%", 100*s.bounds.share),
		fmt.Sprintf("%.3f (%.0f and %.0f ms)", ratio, twofold, once), math.Abs(ratio/2-1) <= s.bounds.share)
	s.report.tell("weights 2:1: rows answered, at what they cost in a loop", fmt.Sprintf("%.3f", worth))
	return nil
}

// charged returns how much device time, in milliseconds, each model got since the server started.
func (v *server) charged(ctx context.Context) (map[string]float64, error) {
	state, err := v.state(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for _, flow := range state.GetFlows() {
		model, _, _ := strings.Cut(flow.GetName(), "@") // the rest is the version
		all[model] += flow.GetChargedMs()
	}
	return all, nil
}
