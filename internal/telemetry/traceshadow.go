package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
)

// followsKey is the key of the request's span in the context of work that follows it.
type followsKey struct{}

// Follow implements predict.Trace, for work such as that of the request's shadows.
func (t *Trace) Follow() func(context.Context) context.Context {
	of := t.root.SpanContext()
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, followsKey{}, of) }
}

// TraceShadows returns models whose calls repeat requests without a caller that waits. If nothing is traced it returns
// m itself.
func (t *Telemetry) TraceShadows(m Models) Models {
	if t.traces == nil {
		return m
	}
	return shadows{m, t.traces}
}

// shadows traces the calls of shadows.
type shadows struct {
	Models
	traces *Traces
}

// Predict runs a call. If the request that it repeats has a trace, the call has one of its own that links to it: the
// caller waits for the request only, so that the call is no part of it.
func (s shadows) Predict(ctx context.Context, call *catalog.Call) error {
	began := time.Now()
	var made *Trace
	// kept samples it: the request is sampled, and so is what follows it.
	if of, is := ctx.Value(followsKey{}).(trace.SpanContext); is {
		made = &Trace{traces: s.traces, began: began}
		ctx, made.root = s.traces.kept.Start(ctx, "shadow", trace.WithNewRoot(), trace.WithTimestamp(began),
			trace.WithLinks(trace.Link{SpanContext: of}))
		ctx = context.WithValue(ctx, traceKey{}, made)
		made.ctx = ctx
	}
	err := s.Models.Predict(ctx, call)
	if made == nil {
		return err
	}
	s.traces.cameBack(made, call)
	now := time.Now()
	made.Done(&predict.Course{
		Event: &predict.Event{
			Model: call.Version.Model, Version: call.Version.Number, Ended: now,
			Execution: predict.Execution{Rows: call.Rows, Outcome: call.Outcome, Phases: call.Phases},
		},
		Request: &predict.Request{Priority: call.Priority}, Submitted: began, Returned: now,
	})
	if err != nil {
		made.root.SetStatus(codes.Error, err.Error())
	}
	made.root.End(trace.WithTimestamp(now))
	return err
}
