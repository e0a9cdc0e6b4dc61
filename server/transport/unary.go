package transport

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
)

// Run answers a request, and releases it. Its time counts from when its bytes came, as far as that is known, because
// the deadline that gRPC has set for the call is too late by as much as they waited for a processor (protect.Late).
func (c *Calls) Run(ctx context.Context, r Request) (any, error) {
	began := time.Now()
	x := r.Common()
	late := protect.Late(ctx)
	x.Arrived = began.Add(-late)
	if deadline, ok := ctx.Deadline(); ok {
		// The message may name a limit of its own; the earlier one counts.
		if by := predict.AnswerBy(began, deadline.Add(-late)); x.Limit.IsZero() || by.Before(x.Limit) {
			x.Limit = by
		}
	}
	sound := false
	defer func() {
		c.Pipeline.Leave(&x.Request)
		if sound { // else somebody may use it still
			r.Release()
		} else {
			x.Leave()
		}
	}()
	at, err := c.Pipeline.Predict(ctx, &x.Request)
	// Only requests for models that exist have a kind: strangers must not make more of them.
	if at.Model != "" {
		k := protect.Kind{Model: at.Model, Version: at.Version, Priority: x.Priority}
		if x.Caller != nil {
			k.Caller = x.Caller.Name
		}
		c.Throttle.Answered(ctx, began, k, lacked(ctx, late, err))
	}
	sound = !errors.Is(err, predict.ErrPanic)
	if err != nil {
		return nil, c.fail(ctx, c.Narrow(x.By, err), at)
	}
	if x.Table != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs(TableHeader, x.Table)) // a page writes its own
	}
	return x.Answer, nil
}

// lacked returns the error of a request for which there was no capacity, nil for one that was answered, could not be
// for reasons of its own, or whose caller left before the time was over, which is by so much earlier than gRPC's.
func lacked(ctx context.Context, late time.Duration, err error) error {
	switch {
	case predict.Lacked(err):
		return err
	case ctx.Err() == nil:
		return nil
	}
	// A caller whose time is over may be gone before a timer here has noticed.
	if deadline, has := ctx.Deadline(); has && time.Until(deadline)-late < predict.AboutNow {
		return context.DeadlineExceeded
	}
	return nil
}
