package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
)

// drainVersion waits until a version has answered what it accepted, on all its replicas, and gives back what these
// hold. One that does not drain because its device is lost is not waited for: it is being retired in the background,
// whenever that ends.
func (h *Host) drainVersion(ctx context.Context, e residency.Drain, all []*replica) {
	done := residency.Drained{Model: e.Model, Number: e.Number}
	for _, r := range all {
		err := h.drain(ctx, r)
		if err != nil && !errors.Is(err, fleet.ErrLeftBehind) {
			done.Interrupted, done.Err = true, err
			break
		}
		if err == nil {
			err = h.release(r)
		}
		done.Err = errors.Join(done.Err, err)
	}
	h.mu.Lock()
	for l := range h.listeners {
		if l.model == e.Model && l.number == e.Number && !done.Interrupted {
			l.closed, l.unclean = true, done.Err
		}
	}
	if h.closing != nil {
		err := done.Err
		if done.Interrupted {
			err = fmt.Errorf("unload model %q version %d: waiting for its last requests: %w", e.Model, e.Number, err)
		}
		h.closing(err)
	}
	rest := h.stepLocked(done)
	if !done.Interrupted {
		h.forget(all)
	}
	h.mu.Unlock()
	rest()
}

// forget forgets replicas that residency speaks of no more. The caller holds Host.mu.
func (h *Host) forget(all []*replica) {
	retiring := h.residency.Retiring()
	for _, r := range all {
		if !slices.Contains(retiring, r.key) { // else its device was lost, and it is retired by itself
			delete(h.replicas, r.key)
		}
	}
}

// drain waits until a replica that takes no requests any more has answered those it has. The error is the cause of ctx
// or fleet.ErrLeftBehind, wrapped. It may be called again, and from several goroutines.
func (h *Host) drain(ctx context.Context, r *replica) error {
	err := r.device.During(ctx, func(ctx context.Context) error { return h.sched.RemoveVersion(ctx, r.id) }, nil)
	if errors.Is(err, fleet.ErrLeftBehind) {
		return fmt.Errorf("model %q version %d: a run: %w", r.model, r.number, err)
	}
	return err
}

// release gives back what a replica holds that has drained, unless it was moved in the scheduler and is still used from
// its other place. It may be called again, and from several goroutines.
func (h *Host) release(r *replica) error {
	if !r.gone.CompareAndSwap(false, true) {
		return nil
	}
	r.untune()
	h.flows.release(r.flow)
	return h.vacate(r)
}

// sit takes a seat for a replica that is to use what r does. It reports whether there is still something to use:
// without a seat taken, it was given back, since the device was lost.
func (r *replica) sit() bool {
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

// vacate gives up a replica's seat, and with the last one what it holds.
func (h *Host) vacate(r *replica) error {
	if r.seats.Add(-1) > 0 {
		return nil
	}
	closed := h.closeSession(r)
	if r.sessions.Add(-1) == 0 {
		h.tellAudit(r.version, AuditBudget, r.audit.end(h))
		h.counts.unloads.Add(1)
	}
	h.memoryFreed()
	return closed
}

// finish retires a replica that is not published any more, however long that takes. Its requests may take their time,
// in which others can be loaded; its memory counts until then. What has not drained when ctx ends is left to Close.
func (h *Host) finish(ctx context.Context, r *replica) {
	err := h.sched.RemoveVersion(ctx, r.id)
	if err == nil {
		err = h.release(r)
		h.tellUnclean(r.version, r.device, err)
		h.mu.Lock()
		delete(h.replicas, r.key)
		rest := h.stepLocked(residency.Retired{Replica: r.key})
		h.mu.Unlock()
		rest()
	}
}

// memoryFreed tells residency what the budget has room for.
func (h *Host) memoryFreed() {
	h.mu.Lock()
	rest := h.stepLocked(residency.MemoryFreed{Free: h.memory.Free()})
	h.mu.Unlock()
	rest()
}

// abandon gives up what a replica on a lost device has queued, and its share of the budget of memory: that does not
// wait for its session, which may take long to close or never do.
func (h *Host) abandon(r *replica) {
	h.memory.Give(r.memory)
	h.sched.Expel(r.id)
	h.memoryFreed()
}

// tellUnclean logs that something of a version was not closed cleanly, if err says so.
func (h *Host) tellUnclean(v *version, on *fleet.Device, err error) {
	if err != nil {
		h.log.Error("a model version was not closed cleanly", "model", v.model, "version", v.number, "device", on.Name,
			"cause", err)
	}
}

// closeSession gives back what a replica holds. No run may be in flight.
func (h *Host) closeSession(r *replica) error {
	defer h.memory.Give(r.memory)
	defer h.fleet.Count(r.device, -1)
	err := r.device.During(context.Background(), func(context.Context) error {
		return r.unit.Close()
	}, nil)
	if err != nil {
		return fmt.Errorf("model %q version %d: close: %w", r.model, r.number, err)
	}
	return nil
}

// finishNow is finish while the host is being closed: what does not drain because its device is lost is left behind.
func (h *Host) finishNow(ctx context.Context, r *replica) {
	err := h.drain(ctx, r)
	if err == nil {
		h.finish(ctx, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing(err)
}

// closeAll unloads every version side by side, and closes those that were replaced. The host is closed, and nothing is
// being loaded.
func (h *Host) closeAll(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		errs []error
	)
	h.mu.Lock()
	h.drains, h.start = ctx, wg.Go
	h.closing = func(err error) { errs = append(errs, err) }
	rest := h.stepLocked(residency.Closed{})
	h.start = nil // what comes late is not waited for, so that nothing is added to wg while it is
	h.mu.Unlock()
	rest()
	wg.Wait()
	return errors.Join(errs...)
}
