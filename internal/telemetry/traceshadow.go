package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
)

type followsKey struct{}

// Follow implements predict.Trace, for work such as that of the request's shadows.
func (t *Trace) Follow() func(context.Context) context.Context {
	of := t.root.SpanContext()
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, followsKey{}, of) }
}

// TraceShadows returns models whose calls repeat requests for nobody: m itself where nothing is traced.
func (t *Telemetry) TraceShadows(m Models) Models {
	if t.traces == nil {
		return m
	}
	return shadows{m, t.traces}
}

type shadows struct {
	Models
	traces *Traces
}

// Predict runs a call. It has a trace of its own if the request that it repeats has one, to which it links: its caller
// waits for that one only.
func (s shadows) Predict(ctx context.Context, call *catalog.Call) error {
	began := time.Now()
	var made *Trace
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
