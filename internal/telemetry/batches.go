package telemetry

import (
	"context"
	"errors"

	"github.com/weftserve/weft/sharedsched"
)

// Why a request was rejected, beyond the scheduler's refusal reasons.
const (
	rejectedExpired     = "EXPIRED"       // its limit passed in the queue
	rejectedCancelled   = "CANCELLED"     // its caller gave up, or a newer request of its stream took over
	rejectedRemoved     = "REMOVED"       // its version is being unloaded
	rejectedDraining    = "DRAINING"      // the server is shutting down
	rejectedClosed      = "CLOSED"        // the scheduler stopped before it could run
	rejectedTooManyRows = "TOO_MANY_ROWS" // more rows than the version takes
)

var rejections = []string{
	sharedsched.RefusedQueueFull.String(), sharedsched.RefusedDeadline.String(), sharedsched.RefusedForGoodput.String(),
	rejectedExpired, rejectedCancelled, rejectedRemoved, rejectedDraining, rejectedClosed, rejectedTooManyRows,
}

// rejection returns the reason that err stands for.
func rejection(err error) string {
	if refusal, ok := errors.AsType[*sharedsched.Refusal](err); ok {
		return refusal.Reason.String()
	}
	switch {
	case errors.Is(err, sharedsched.ErrExpired), errors.Is(err, context.DeadlineExceeded):
		return rejectedExpired
	case errors.Is(err, sharedsched.ErrRemoved):
		return rejectedRemoved
	case errors.Is(err, sharedsched.ErrDraining):
		return rejectedDraining
	case errors.Is(err, sharedsched.ErrClosed):
		return rejectedClosed
	case errors.Is(err, sharedsched.ErrTooManyRows):
		return rejectedTooManyRows
	}
	return rejectedCancelled
}

// BatchDone implements sharedsched.Observer.
func (t *Telemetry) BatchDone(e sharedsched.BatchEvent) {
	ctx := context.Background()
	s := t.versions.of(e.Version, e.Device)
	t.deviceBusy.Add(ctx, e.DeviceTime.Seconds(), s.device.add...)
	if !s.serving {
		return
	}
	t.flushes.Add(ctx, 1, s.flush[e.Reason].add...)
	t.batchSize.Record(ctx, int64(e.Rows), s.plain.record...)
	t.batchCost.Record(ctx, float64(e.DeviceTime)/1e6, s.plain.record...)
	t.paddingRows.Add(ctx, int64(e.Padded-e.Rows), s.plain.add...)
	// What a failed execution took says nothing about the estimate.
	if e.Estimated > 0 && !e.Failed {
		t.estimateError.Record(ctx, float64(e.DeviceTime)/float64(e.Estimated), s.plain.record...)
	}
}

// TaskRefused implements sharedsched.Observer.
func (t *Telemetry) TaskRefused(v sharedsched.VersionID, err error) {
	if s := t.versions.of(v, ""); s.serving {
		t.rejected.Add(context.Background(), 1, s.reject[rejection(err)].add...)
	}
}
