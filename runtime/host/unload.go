package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	h.update(func() bool {
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
	h.update(func() bool {
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
// hold. One that did not drain until ctx ended is left for a later call, at the latest that of Close.
func (h *Host) retire(ctx context.Context, v *version) (drained, closed error) {
	v.ready.Store(false)
	for _, r := range v.list() {
		drained, failed := h.retireReplica(ctx, r)
		if drained != nil {
			return drained, closed
		}
		closed = errors.Join(closed, failed)
	}
	return nil, closed
}

// retireReplica waits until a replica that takes no requests any more has answered those it has, and gives back what it holds unless
// it was moved in the scheduler and is still used from its other place. It may be called again, and from several goroutines.
func (h *Host) retireReplica(ctx context.Context, r *replica) (drained, closed error) {
	if err := h.sched.RemoveVersion(ctx, r.id); err != nil {
		return err, nil
	}
	if !r.gone.CompareAndSwap(false, true) {
		return nil, nil
	}
	h.flows.release(r.flow)
	return nil, h.vacate(r)
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

// finish retires a replica that is not published any more. What has not drained when ctx ends is left to Close.
func (h *Host) finish(ctx context.Context, r *replica) {
	drained, closed := h.retireReplica(ctx, r)
	if drained != nil {
		return
	}
	h.mu.Lock()
	delete(h.retiring, r)
	h.mu.Unlock()
	if closed != nil {
		h.log.Error("a model version was not closed cleanly", "model", r.model, "version", r.number, "device", r.device.name, "cause", closed)
	}
}

// lostCloseTime is how long a session on a lost device may take to close. Its driver may never return.
const lostCloseTime = 5 * time.Second

// closeSession gives back what a replica holds. No run may be in flight.
func (h *Host) closeSession(r *replica) error {
	defer h.memory.give(r.memory)
	defer h.fleet.count(r.device, -1)
	closed := make(chan error, 1)
	end := func() {
		r.buffers.close() // the driver unlocks them, where it had locked them
		closed <- r.opened.Session.Close()
	}
	if r.device.lost.Load() == nil {
		end()
	} else {
		go end()
	}
	var err error
	select {
	case err = <-closed:
	case <-time.After(lostCloseTime):
		err = fmt.Errorf("it does not end on the lost device %s and is left behind", r.device.name)
	}
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
	for _, m := range h.Snapshot().Models {
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
		wg.Go(func() { h.finish(ctx, r) })
	}
	h.mu.Unlock()
	wg.Wait()
	return errors.Join(errs...)
}
