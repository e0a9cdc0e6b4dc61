package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// unload publishes the version as unloading, waits until its last request ended, gives its memory back, and forgets it, or
// publishes in its place what next returns, which may be nil; unless may, which is asked with Host.mu held, has something against
// it. The error is that of may, catalog.ErrUnknown or catalog.ErrBusy, wrapped, the cause of ctx (the version keeps draining
// then, and unload may be called again), or what the engine says. The caller has the model's turn, or the host is closed.
func (h *Host) unload(ctx context.Context, name string, number int64, may func(*model, *entry) error, next func() *catalog.Version) error {
	v, err := h.claim(name, number, may)
	if err != nil {
		return fmt.Errorf("unload model %q version %d: %w", name, number, err)
	}
	if v != nil {
		drained, closed := h.retire(ctx, v)
		if drained != nil {
			h.mu.Lock()
			h.models[name].versions[number].claimed = false
			h.mu.Unlock()
			return fmt.Errorf("unload model %q version %d: waiting for its last requests: %w", name, number, drained)
		}
		err = closed
	}
	h.update(name, func() bool {
		m := h.models[name]
		m.versions[number].failure.stop()
		delete(m.versions, number)
		if next != nil {
			if public := next(); public != nil {
				m.versions[number] = &entry{public: public}
			}
		}
		return true
	})
	return err
}

// claim makes the caller the one that unloads a version, and publishes that. It returns nil for a version that failed to load:
// nothing of it is resident.
func (h *Host) claim(name string, number int64, may func(*model, *entry) error) (v *version, err error) {
	h.update(name, func() bool {
		m := h.models[name]
		var e *entry
		if m != nil {
			e = m.versions[number]
		}
		switch {
		case e == nil:
			err = catalog.ErrUnknown
		case e.claimed, e.loading:
			err = catalog.ErrBusy
		default:
			err = may(m, e)
		}
		if err != nil {
			return false
		}
		e.claimed = true
		next := *e.public
		next.State = catalog.Unloading
		e.public = &next
		if v = e.resident; v != nil {
			v.ready.Store(false)
		}
		return true
	})
	return v, err
}

// retire waits until a version that takes no requests any more has answered those it has, on all replicas, and gives back what these
// hold. One that did not drain until ctx ended is left for a later call, at the latest that of Close. One that does not drain because
// its device is lost is not waited for any more: it is being retired in the background since, whenever that ends.
func (h *Host) retire(ctx context.Context, v *version) (drained, closed error) {
	v.ready.Store(false)
	for _, r := range v.list() {
		drained := h.drain(ctx, r)
		if errors.Is(drained, errLeftBehind) {
			closed = errors.Join(closed, drained)
			continue
		}
		if drained != nil {
			return drained, closed
		}
		closed = errors.Join(closed, h.release(r))
	}
	return nil, closed
}

// drain waits until a replica that takes no requests any more has answered those it has. The error is the cause of ctx or
// errLeftBehind, wrapped. It may be called again, and from several goroutines.
func (h *Host) drain(ctx context.Context, r *replica) error {
	err := r.device.during(ctx, func(ctx context.Context) error { return h.sched.RemoveVersion(ctx, r.id) }, nil)
	if errors.Is(err, errLeftBehind) {
		return fmt.Errorf("model %q version %d: a run: %w", r.model, r.number, err)
	}
	return err
}

// release gives back what a replica holds that has drained, unless it was moved in the scheduler and is still used from its other place.
// It may be called again, and from several goroutines.
func (h *Host) release(r *replica) error {
	if !r.gone.CompareAndSwap(false, true) {
		return nil
	}
	r.untune()
	h.flows.release(r.flow)
	return h.vacate(r)
}

// sit takes a seat for a replica that is to use what r does. It reports whether there is still something to use: without a seat taken,
// it was given back, since the device was lost.
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
	h.retryForMemory()
	return closed
}

// retireLater retires replicas that are not published any more, in the background: their requests may take their time, in which others
// can be loaded. Their memory counts until then.
func (h *Host) retireLater(all ...*replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range all {
		_, already := h.retiring[r]
		h.retiring[r] = struct{}{}
		if !h.closed && !already {
			h.loads.Go(func() { h.finish(h.stop, r) })
		}
	}
}

// finish retires a replica that is not published any more, however long that takes. What has not drained when ctx ends is left to Close.
func (h *Host) finish(ctx context.Context, r *replica) {
	if h.sched.RemoveVersion(ctx, r.id) != nil {
		return
	}
	closed := h.release(r)
	h.mu.Lock()
	delete(h.retiring, r)
	h.mu.Unlock()
	h.tellUnclean(r.version, r.device, closed)
}

// tellUnclean logs that something of a version was not closed cleanly, if err says so.
func (h *Host) tellUnclean(v *version, on *device, err error) {
	if err != nil {
		h.log.Error("a model version was not closed cleanly", "model", v.model, "version", v.number, "device", on.name, "cause", err)
	}
}

// closeSession gives back what a replica holds. No run may be in flight.
func (h *Host) closeSession(r *replica) error {
	defer h.memory.give(r.memory)
	defer h.fleet.count(r.device, -1)
	err := r.device.during(context.Background(), func(context.Context) error {
		return r.unit.Close()
	}, nil)
	if err != nil {
		return fmt.Errorf("model %q version %d: close: %w", r.model, r.number, err)
	}
	return nil
}

// unloadAll unloads every version side by side, and closes those that were replaced.
func (h *Host) unloadAll(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, m := range h.Snapshot().Models.All() {
		for _, v := range m.Versions {
			wg.Go(func() {
				err := h.unload(ctx, v.Model, v.Number, func(*model, *entry) error { return nil }, nil)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	h.mu.Lock()
	for r := range h.retiring {
		wg.Go(func() {
			err := h.drain(ctx, r)
			if err == nil {
				h.finish(ctx, r)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	h.mu.Unlock()
	wg.Wait()
	return errors.Join(errs...)
}
