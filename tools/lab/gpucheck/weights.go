package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// weights loads two models, one with twice the weight and other batches, with more than the device can do. The
// part of each is the device time that its flow was charged, according to GetSchedulerState.
func (s *suite) weights(ctx context.Context) error {
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	h.target = 10 * time.Millisecond // not to be met: where all are in time weights decide nothing
	repository := s.repository("weights")
	double, err1 := s.placeHeavy(repository, "double", h, 2, h.layers)
	single, err2 := s.placeHeavy(repository, "single", h, 1, h.layers/2)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	doubleAlone, err1 := s.engine.loop(double, h.rows, s.Span/10)
	singleAlone, err2 := s.engine.loop(single, h.rows, s.Span/10)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return s.serve(ctx, "weights", repository, func(v *server) error {
		loads := []*load{h.load("double", 4), h.load("single", 4)}
		stop := start(ctx, v.conns, loads...)
		defer stop()
		if err := wait(ctx, s.Span/4); err != nil {
			return err
		}
		before, err := v.state(ctx)
		if err != nil {
			return err
		}
		doubleCalls, singleCalls := loads[0].calls.Load(), loads[1].calls.Load()
		// Either may be ahead by their targets when the time ends: it must be long compared with these.
		if err := wait(ctx, 2*s.Span); err != nil {
			return err
		}
		after, err := v.state(ctx)
		if err != nil {
			return err
		}
		doubleCalls, singleCalls = loads[0].calls.Load()-doubleCalls, loads[1].calls.Load()-singleCalls
		if err := errors.Join(loads[0].err(), loads[1].err()); err != nil {
			return err
		}
		twofold := charged(after, "double") - charged(before, "double")
		once := charged(after, "single") - charged(before, "single")
		if once <= 0 {
			return fmt.Errorf("GetSchedulerState says that the models were given %.0f and %.0f ms of device time",
				twofold, once)
		}
		ratio := twofold / once
		s.report.timed("weights 2:1: device time", fmt.Sprintf("2 ± %g %%", 100*s.bounds.share),
			fmt.Sprintf("%.3f (%.0f and %.0f ms)", ratio, twofold, once), math.Abs(ratio/2-1) <= s.bounds.share)
		// The same by the rows answered: the charge of the flows is the scheduler's own measure.
		s.report.tell("weights 2:1: rows answered, at what they cost in a loop", fmt.Sprintf("%.3f",
			float64(doubleCalls)/doubleAlone.perSecond/(float64(singleCalls)/singleAlone.perSecond)))
		return nil
	})
}

// charged returns how much device time, in milliseconds, a model got since the server started.
func charged(state *weftv1.SchedulerState, model string) (ms float64) {
	for _, flow := range state.GetFlows() {
		if name, _, _ := strings.Cut(flow.GetName(), "@"); name == model { // the rest is the version
			ms += flow.GetChargedMs()
		}
	}
	return ms
}
