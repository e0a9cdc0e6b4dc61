package serving

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/fleet"
)

// Drain waits until a replica that takes no requests any more has answered those it has. The error is the cause of ctx
// or fleet.ErrLeftBehind, wrapped. It may be called again, and from several goroutines.
func (r *Replica) Drain(ctx context.Context) error {
	err := r.Device.During(ctx, func(ctx context.Context) error { return r.shared.sched.RemoveVersion(ctx, r.id) }, nil)
	if errors.Is(err, fleet.ErrLeftBehind) {
		return fmt.Errorf("model %q version %d: a run: %w", r.Model, r.Number, err)
	}
	return err
}

// Release gives back the resources of a drained replica, unless it was moved in the scheduler and is still used from
// its other place. It may be called again, and from several goroutines.
func (r *Replica) Release() error {
	if !r.gone.CompareAndSwap(false, true) {
		return nil
	}
	r.shared.quarantine.Review(r.origin()) // they keep its session open
	r.untune()
	r.shared.flows.release(r.flow)
	return r.vacate()
}

// sit takes a seat for a replica that is to use r's session. It reports whether that is still there: without a seat
// taken, it was given back, since the device was lost.
func (r *Replica) sit() bool {
	for {
		taken := r.seats.Load()
		if taken == 0 {
			return false
		}
		if r.seats.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

// vacate gives up a replica's seat, and with the last one its resources.
func (r *Replica) vacate() error {
	if r.seats.Add(-1) > 0 {
		return nil
	}
	closed := r.closeSession()
	last := r.sessions.Add(-1) == 0
	if last {
		r.audit.End()()
	}
	r.shared.Owner.Freed(last)
	return closed
}

// Finish drains and releases a replica, however long that takes, and reports whether it could before ctx ended. Its
// requests may take their time, in which others can be loaded; its memory counts until then.
func (r *Replica) Finish(ctx context.Context) (finished bool) {
	if r.shared.sched.RemoveVersion(ctx, r.id) != nil {
		return false
	}
	r.tellUnclean(r.Device, r.Release())
	return true
}

// GiveMemory gives up the share of the budget of memory that a replica on a lost device has: that does not wait for its
// session, which may take long to close or never do.
func (r *Replica) GiveMemory() { r.shared.Memory.Give(r.memory) }

// Abandon gives up the queued requests of a replica on a lost device.
func (r *Replica) Abandon() { r.shared.sched.Expel(r.id) }

// tellUnclean logs that something of a version was not closed cleanly, if err says so.
func (v *Version) tellUnclean(on *fleet.Device, err error) {
	if err != nil {
		v.shared.Log.Error("replica not closed cleanly", "event", "replica_close_failed",
			"model", v.Model, "version", v.Number, "device", on.Name, "cause", err)
	}
}

// closeSession gives back a replica's resources. No run may be in flight.
func (r *Replica) closeSession() error {
	defer r.shared.Memory.Give(r.memory)
	defer r.giveCopy()
	defer r.shared.Fleet.Count(r.Device, -1)
	err := r.Device.During(context.Background(), func(context.Context) error {
		return r.unit.Close()
	}, nil)
	if err != nil {
		return fmt.Errorf("model %q version %d: close: %w", r.Model, r.Number, err)
	}
	return nil
}
