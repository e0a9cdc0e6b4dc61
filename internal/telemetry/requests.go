package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// RequestOffered implements predict.Observer.
func (t *Telemetry) RequestOffered(model string, stream bool) {
	t.requests.offer(requestKey{model: model, stream: stream})
}

// RequestDone implements predict.Observer. If the request's trace is sampled, its duration is an example of those in
// the same bucket.
func (t *Telemetry) RequestDone(ctx context.Context, e *predict.Event) {
	if e.TraceID == "" {
		ctx = context.Background() // nobody is to look for its trace
	}
	l := t.requests.end(requestKey{e.Model, e.Version, e.Code, e.Stream})
	t.duration.Record(ctx, e.Duration.Seconds(), l.record...)
	if e.Degraded {
		t.degraded.Add(context.Background(), 1, metric.WithAttributes(attribute.String("model", e.Model)))
	}
	if e.FailedOverFrom != 0 {
		t.failedOver.Add(context.Background(), 1, versionOf(e.Model, e.FailedOverFrom))
	}
}

// RequestUnread counts a request that was refused by its header. RequestOffered and RequestDone are called for it, too.
func (t *Telemetry) RequestUnread(model string) {
	t.unread.Add(context.Background(), 1, metric.WithAttributes(attribute.String("model", model)))
}

// CallCame measures how long the header of a call waited until it was seen.
func (t *Telemetry) CallCame(waited time.Duration) {
	t.waited.Record(context.Background(), waited.Seconds())
}

// watched measures the answers of its Models.
type watched struct {
	Models
	telemetry *Telemetry
}

// Predict runs the call and records its end: how long it waited, or why it was not executed, or how it ended the
// engine's process.
func (w *watched) Predict(ctx context.Context, call *catalog.Call) error {
	err := w.Models.Predict(ctx, call)
	example := w.telemetry.cameBack(ctx, call)
	s := w.telemetry.versions.of(sharedsched.VersionID(call.Version.Scheduler), call.Version.Device)
	// Only answered requests count: one that expired has waited for all of its limit, whatever the queue.
	if err == nil {
		w.telemetry.queueWait.Record(example, call.Outcome.Queue.Seconds(), s.plain.record...)
	} else if reason := rejection(ctx, err); reason != "" && s.serving {
		w.telemetry.rejected.Add(ctx, 1, s.reject[reason].add...)
	} else if how := crash(err); how != "" && !call.Shadow {
		w.telemetry.crashed.Add(ctx, 1, versionOf(call.Version.Model, call.Version.Number),
			metric.WithAttributes(attribute.String("cause", how)))
	}
	return err
}

// crash returns how a failed request ends the engine's process: by a crash, a hang, or the memory that it takes. It is
// "" if it does not.
func crash(err error) string {
	failed, is := errors.AsType[*catalog.ModelError](err)
	if !is || !failed.Crashed {
		return ""
	}
	// The engine's package is not imported for one error.
	_, overran := errors.AsType[interface {
		error
		Overran()
	}](failed.Err)
	switch {
	case failed.Exceeded > 0:
		return "memory"
	case overran:
		return "hang"
	}
	return "crash"
}
