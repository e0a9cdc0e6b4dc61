package synth

import (
	"context"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

// Device executes one run at a time, in the order in which they came. Models that share one compete for it.
type Device struct {
	busy chan struct{} // holds one value while a run has the device; its waiters are served in order
}

// NewDevice returns an idle device.
func NewDevice() *Device { return &Device{busy: make(chan struct{}, 1)} }

// occupy waits for the device and holds it for as long as duration says. The error is engine.ErrClosed as soon as
// stop closes, and of the kind engine.Terminated as soon as ctx ends. Duration is called while the device is held.
// The wait is a timer's: on real time up to about a millisecond longer than asked for, and exact in a
// testing/synctest bubble.
func (d *Device) occupy(ctx context.Context, stop <-chan struct{}, duration func() time.Duration) error {
	select {
	case <-stop: // select would choose either if the device is idle as well
		return engine.ErrClosed
	default:
	}
	select {
	case <-stop:
		return engine.ErrClosed
	case <-ctx.Done():
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	case d.busy <- struct{}{}:
	}
	defer func() { <-d.busy }()
	timer := time.NewTimer(duration())
	defer timer.Stop()
	select {
	case <-stop:
		return engine.ErrClosed
	case <-ctx.Done():
		return &engine.Error{Kind: engine.Terminated, Err: context.Cause(ctx)}
	case <-timer.C:
		return nil
	}
}
