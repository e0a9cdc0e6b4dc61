package weftapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/intake"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/throttle"
	"github.com/weftserve/weft/sharedsched"
)

// Predictions implements PredictionService.
type Predictions struct {
	weftv1.UnimplementedPredictionServiceServer // stands for Predict, which Register replaces
	*API
}

// Register registers the service. The handler of Predict is not the generated one, because its messages are not those
// of the generated code: see codec.
func (s Predictions) Register(with grpc.ServiceRegistrar) {
	desc := weftv1.PredictionService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: weftv1.PredictionService_Predict_FullMethodName}
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Predict" {
			desc.Methods[i].Handler = s.handler(info)
		}
	}
	with.RegisterService(&desc, s)
}

// handler returns that of Predict.
func (s Predictions) handler(info *grpc.UnaryServerInfo) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		c := s.request(false)
		if err := decode(c); err != nil {
			c.release()
			return nil, err
		}
		if intercept == nil {
			return predictUnary(ctx, c)
		}
		return intercept(ctx, c, info, predictUnary)
	}
}

// predictUnary answers a request, which is a *codec, and releases it.
func predictUnary(ctx context.Context, request any) (any, error) {
	began := time.Now()
	c := request.(*codec)
	late := intake.Late(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		c.Limit = predict.AnswerBy(began, deadline.Add(-late))
	}
	sound := false
	defer func() {
		c.api.Pipeline.Leave(&c.Request)
		if sound { // else somebody may use it still
			c.release()
		}
	}()
	at, err := c.api.Pipeline.Predict(ctx, &c.Request)
	if at.Model != "" {
		k := throttle.Kind{Model: at.Model, Version: at.Version, Priority: c.Priority}
		if c.Caller != nil {
			k.Caller = c.Caller.Name
		}
		c.api.Throttle.Answered(ctx, began, k, lacked(ctx, late, err))
	}
	sound = !errors.Is(err, predict.ErrPanic)
	if err != nil {
		return nil, status.Fail(ctx, c.api.narrow(c.caller, err), at)
	}
	return c.answer, nil
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

// Refused counts a prediction whose message could not be read. The method is that of gRPC.
func (a *API) Refused(method string, err error) {
	stream := method == weftv1.PredictionService_PredictStream_FullMethodName
	if stream || method == weftv1.PredictionService_Predict_FullMethodName {
		a.Pipeline.Refuse("", stream, err)
	}
}

// Keeps reports whether the messages of a method keep their caller themselves.
func Keeps(method string) bool { return method == weftv1.PredictionService_Predict_FullMethodName }

// Checked reports whether an answer was kept to the limit of messages where it was counted.
func Checked(answer any) bool {
	_, prediction := answer.(*weftv1.PredictResponse)
	return prediction
}
