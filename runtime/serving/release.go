package serving

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftserve/weft/runtime/fleet"
)

// Drain takes a replica out of the scheduler and waits until it has answered its accepted requests. On a device that is
// lost it waits for fleet's patience only. The error is the cause of ctx or fleet.ErrLeftBehind, wrapped. It may be
// called again, and from several goroutines.
func (r *Replica) Drain(ctx context.Context) error {
	err := r.Device.During(ctx, func(ctx context.Context) error {
		r.unheld(ctx)
		return r.shared.sched.RemoveVersion(ctx, r.id)
	}, nil)
	if errors.Is(err, fleet.ErrLeftBehind) {
		return fmt.Errorf("model %q version %d: a run: %w", r.Model, r.Number, err)
	}
	return err
}

// Release releases the resources of a drained replica, unless it was moved in the scheduler and they are still used
// from its other place. The error is that of closing the session. It may be called again, and from several goroutines:
// only the first call does anything.
func (r *Replica) Release() error {
	if !r.gone.CompareAndSwap(false, true) {
		return nil
	}
	r.shared.quarantine.Review(r.origin()) // they keep its session open
	r.untune()
	r.shared.flows.release(r.flow)
	return r.vacate()
}

// sit takes a seat for somebody that is going to use r's session, and reports whether it could: with no seat taken the
// session was closed already, because the device was lost. vacate must follow.
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

// vacate gives up a seat, and with the last one the session, its buffers and its memory. The error is that of closing
// the session.
func (r *Replica) vacate() error {
	if r.seats.Add(-1) > 0 {
		return nil
	}
	closed := r.closeSession()
	last := r.sessions.Add(-1) == 0
	if last {
		// The version has no session left to run rows on.
		r.audit.End()()
		r.LetSteps()
	}
	r.shared.Owner.Freed(last)
	return closed
}

// Finish drains and releases a replica, however long that takes, and reports whether it could before ctx ended. Its
// memory counts until then, while other versions may be loaded.
func (r *Replica) Finish(ctx context.Context) (finished bool) {
	r.unheld(ctx)
	if r.shared.sched.RemoveVersion(ctx, r.id) != nil {
		return false
	}
	r.tellUnclean(r.Device, r.Release())
	return true
}

// GiveMemory releases the share of the memory budget of a replica on a lost device, before its session is closed: that
// may take long, or never happen.
func (r *Replica) GiveMemory() { r.shared.Memory.Give(r.memory) }

// Abandon ends the queued requests of a replica on a lost device with sharedsched.ErrRemoved, so that they are tried
// elsewhere.
func (r *Replica) Abandon() { r.shared.sched.Expel(r.id) }

// tellUnclean logs an error of closing where no caller waits for it; nil is none.
func (v *Version) tellUnclean(on *fleet.Device, err error) {
	if err != nil {
		v.shared.Log.Error("replica not closed cleanly", "event", "replica_close_failed",
			"model", v.Model, "version", v.Number, "device", on.Name, "cause", err)
	}
}

// closeSession releases all that the replica has taken, even if the session does not close cleanly. No run may be in
// flight.
func (r *Replica) closeSession() error {
	defer r.giveCopy()
	defer r.shared.Fleet.Count(r.Device, -1)
	return r.freeSession()
}

// freeSession closes the session and releases its memory. On a lost device closing has fleet's patience. It may be
// called again.
func (r *Replica) freeSession() error {
	defer r.shared.Memory.Give(r.memory)
	err := r.Device.During(context.Background(), func(context.Context) error {
		return r.unit.Close()
	}, nil)
	if err != nil {
		return fmt.Errorf("model %q version %d: close: %w", r.Model, r.Number, err)
	}
	return nil
}
