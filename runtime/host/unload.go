package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// Unload publishes the version as unloading, waits until its last request ended, gives its memory back, and forgets it, whoever
// still wants it. The error is catalog.ErrUnknown or catalog.ErrBusy, wrapped, the cause of ctx (the version keeps draining then, and Unload may
// be called again), or what the engine says.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	return h.unload(ctx, name, number, nil, nil)
}

// unload does what Unload does, unless may, which is asked with Host.mu held, has something against it. It forgets the version,
// or publishes in its place what next returns. Both may be nil.
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
		if len(m.versions) == 0 && m.cause == "" && m.listed == nil {
			delete(h.models, name)
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
		case e.claimed, e.loading, may == nil && e.public.State == catalog.Loading:
			err = catalog.ErrBusy
		case may != nil:
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

// retire waits until a version that takes no requests any more has answered those it has, and gives back what it holds unless
// it was moved in the scheduler and is still used from its other place. A version that did not drain until ctx ended is left for a later call, at the latest that of Close.
func (h *Host) retire(ctx context.Context, v *version) (drained, closed error) {
	v.ready.Store(false)
	if err := h.sched.RemoveVersion(ctx, v.id); err != nil {
		return err, nil
	}
	h.flows.release(v.flow)
	if v.seats.Add(-1) > 0 {
		return nil, nil
	}
	h.counts.unloads.Add(1)
	closed = h.closeSession(v)
	h.retryForMemory()
	return nil, closed
}

// retireReplaced retires a version whose place another has taken, in the background if ctx ends before it has drained.
func (h *Host) retireReplaced(ctx context.Context, v *version) {
	h.mu.Lock()
	h.retiring[v] = struct{}{}
	h.mu.Unlock()
	drained, closed := h.retire(ctx, v)
	if drained != nil {
		if ctx, done, err := h.begin(context.Background()); err == nil { // only the caller went away
			go func() {
				defer done()
				h.retireReplaced(ctx, v)
			}()
		}
		return
	}
	h.mu.Lock()
	delete(h.retiring, v)
	h.mu.Unlock()
	if closed != nil {
		h.log.Error("a model version that was replaced was not closed cleanly", "model", v.model, "version", v.number, "cause", closed)
	}
}

// closeSession gives back what a version holds. No run may be in flight.
func (h *Host) closeSession(v *version) error {
	defer h.memory.give(v.memory)
	v.buffers.close()
	if err := v.opened.Session.Close(); err != nil {
		return fmt.Errorf("model %q version %d: close: %w", v.model, v.number, err)
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
	for v := range h.retiring {
		wg.Go(func() { h.retireReplaced(ctx, v) })
	}
	h.mu.Unlock()
	wg.Wait()
	return errors.Join(errs...)
}
