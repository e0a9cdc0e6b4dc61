package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/sharedsched"
)

// Unary returns a service in which that method is served by messages of this kind instead of the generated code's.
func (h *Calls) Unary(desc *grpc.ServiceDesc, method string, service any, message func() Request) *grpc.ServiceDesc {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	info := &grpc.UnaryServerInfo{Server: service, FullMethod: "/" + desc.ServiceName + "/" + method}
	i := slices.IndexFunc(own.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method })
	own.Methods[i].Handler = func(
		_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
	) (any, error) {
		m := message()
		if err := decode(m); err != nil {
			m.Release()
			return nil, err
		}
		if intercept == nil {
			return h.Run(ctx, m)
		}
		return intercept(ctx, m, info, h.Run)
	}
	return &own
}

// Run answers a request, which is a Request, and releases it.
func (h *Calls) Run(ctx context.Context, request any) (any, error) {
	began := time.Now()
	m := request.(Request)
	r := m.Asked()
	late := protect.Late(ctx)
	r.Arrived = began.Add(-late)
	if deadline, ok := ctx.Deadline(); ok {
		if by := predict.AnswerBy(began, deadline.Add(-late)); r.Limit.IsZero() || by.Before(r.Limit) {
			r.Limit = by
		}
	}
	sound := false
	defer func() {
		h.Pipeline.Leave(r)
		if sound { // else somebody may use it still
			m.Release()
		} else {
			m.Entrance().Leave()
		}
	}()
	at, err := h.Pipeline.Predict(ctx, r)
	if at.Model != "" {
		k := protect.Kind{Model: at.Model, Version: at.Version, Priority: r.Priority}
		if r.Caller != nil {
			k.Caller = r.Caller.Name
		}
		h.Throttle.Answered(ctx, began, k, lacked(ctx, late, err))
	}
	sound = !errors.Is(err, predict.ErrPanic)
	if err != nil {
		return nil, h.failed(ctx, m.Entrance().Caller, err, at)
	}
	return m.Answer(), nil
}

// lacked returns the error of a request for which there was no capacity, nil for one that was answered, could not be
// for reasons of its own, or whose caller left before the time was over, which is by so much earlier than gRPC's.
func lacked(ctx context.Context, late time.Duration, err error) error {
	_, refused := errors.AsType[*sharedsched.Refusal](err)
	_, full := errors.AsType[*predict.ServerFullError](err)
	switch {
	case refused, full, errors.Is(err, sharedsched.ErrExpired), errors.Is(err, context.DeadlineExceeded):
		return err
	case ctx.Err() == nil:
		return nil
	}
	// A caller whose time is over may be gone before a timer here has noticed.
	if deadline, has := ctx.Deadline(); has && time.Until(deadline)-late < aboutNow {
		return context.DeadlineExceeded
	}
	return nil
}

// aboutNow is how long before its deadline a caller may give a call up because of it: its clock began before ours.
const aboutNow = 5 * time.Millisecond
