package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/fleet/placement"
)

// Device is one incarnation of a device: one that comes back after it was lost is another.
type Device struct {
	Name        string
	Incarnation int
	Lanes       int // batches that may be in flight on it

	// Pending is the device time that unanswered requests on it are expected to take, and Asked the time that was asked
	// for since the latest tick: served or refused. Both are nanoseconds. However many lanes a GPU has, it gives a
	// second of its time in a second: batches that run next to each other have parts of it. The processor gives a second
	// for each lane, but there is only one of it, which is compared with no other device.
	Pending, Asked atomic.Int64
	// Hanging is how many runs on it hang.
	Hanging atomic.Int32

	lost  atomic.Pointer[error] // nil while it works
	left  chan struct{}         // closed once lost is set
	known chan struct{}         // closed by Known

	load     float64 // guarded by Fleet.mu; see placement.Device
	versions int     // guarded by Fleet.mu; on it or being loaded
	loading  int64   // guarded by Fleet.mu; bytes, by estimate, of those being loaded
}

// ID names the incarnation.
func (d *Device) ID() placement.DeviceID {
	return placement.DeviceID{Name: d.Name, Incarnation: d.Incarnation}
}

// Lost returns why the device failed, or nil while it works. It takes no lock.
func (d *Device) Lost() error {
	if cause := d.lost.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Stuck reports whether each of its lanes is held by a run that hangs, so that no other run can begin.
func (d *Device) Stuck() bool { return int(d.Hanging.Load()) >= d.Lanes }

// Lose notes that the device failed. It reports whether that is news.
func (d *Device) Lose(cause error) bool {
	if !d.lost.CompareAndSwap(nil, &cause) {
		return false
	}
	close(d.left)
	return true
}

// Known notes that residency knows of the loss. It is called once, after Lose has returned true.
func (d *Device) Known() { close(d.known) }

// AwaitKnown waits for Known, or for ctx. It returns at once while the device works.
func (d *Device) AwaitKnown(ctx context.Context) {
	if d.Lost() == nil {
		return
	}
	select {
	case <-d.known:
	case <-ctx.Done():
	}
}

// patience is how long work that was begun on a device may take once it is lost. It is enough for a process to be
// ended; a driver in this process may never return.
const patience = 5 * time.Second

// ErrLeftBehind says that work that was begun on a device did not end in time after the device was lost.
var ErrLeftBehind = errors.New("is left behind")

// During runs f, in a goroutine of its own, and returns its error. On a device that is lost, or gets lost meanwhile, f
// has 5 s left: then its context ends, the error is ErrLeftBehind, wrapped, and late, which may be nil, is called with
// the error of f if f ever ends.
//
// Where models run in processes of their own, f ends soon after that: an opening with its context, a run or a close
// with the device's process. Where they run in the server's (--isolation none), nothing ends a call that the driver
// does not return from: without being left behind, it would hold its version, and the memory of that, for ever.
func (d *Device) During(ctx context.Context, f func(context.Context) error, late func(error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// ended has no buffer, so that exactly one of the two sides takes the error: the caller, or late.
	ended, left := make(chan error), make(chan struct{})
	go func() {
		err := f(ctx)
		select {
		case ended <- err:
		case <-left:
			if late != nil {
				late(err)
			}
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-d.left:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		close(left)
		return fmt.Errorf("it does not end on the lost device %s and %w", d.Name, ErrLeftBehind)
	}
}
