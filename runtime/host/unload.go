package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// ErrUnknown says that the host has no such version.
var ErrUnknown = errors.New("no such model version")

// ErrBusy says that the version is being loaded or unloaded.
var ErrBusy = errors.New("the model version is being loaded or unloaded")

// Unload publishes the version as unloading, waits until its last request ended, gives its memory back, and forgets it. The error
// is ErrUnknown or ErrBusy, wrapped, the cause of ctx (the version keeps draining then, and Unload may be called again), or what
// the engine says.
func (h *Host) Unload(ctx context.Context, name string, number int64) error {
	v, err := h.claim(name, number)
	if err != nil {
		return fmt.Errorf("unload model %q version %d: %w", name, number, err)
	}
	if v != nil {
		if err := h.sched.RemoveVersion(ctx, v.id); err != nil {
			h.mu.Lock()
			h.models[name].versions[number].claimed = false
			h.mu.Unlock()
			return fmt.Errorf("unload model %q version %d: waiting for its last requests: %w", name, number, err)
		}
		h.flows.release(v.flow)
		err = h.closeSession(v)
	}
	h.update(func() bool {
		delete(h.models[name].versions, number)
		if m := h.models[name]; len(m.versions) == 0 && m.cause == "" {
			delete(h.models, name)
		}
		return true
	})
	return err
}

// claim makes the caller the one that unloads a version, and publishes that. It returns nil for a version that failed to load:
// nothing of it is resident.
func (h *Host) claim(name string, number int64) (v *version, err error) {
	h.update(func() bool {
		var e *entry
		if m := h.models[name]; m != nil {
			e = m.versions[number]
		}
		switch {
		case e == nil:
			err = ErrUnknown
			return false
		case e.claimed, e.public.State == catalog.Loading:
			err = ErrBusy
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

// closeSession gives back what a version holds. No run may be in flight.
func (h *Host) closeSession(v *version) error {
	v.buffers.close()
	if err := v.opened.Session.Close(); err != nil {
		return fmt.Errorf("model %q version %d: close: %w", v.model, v.number, err)
	}
	return nil
}

// unloadAll unloads every version side by side.
func (h *Host) unloadAll(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, m := range h.Snapshot().Models {
		for _, v := range m.Versions {
			wg.Go(func() {
				err := h.Unload(ctx, v.Model, v.Number)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
