package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// drainVersion carries out residency.Drain: it waits until a version has answered its accepted requests, on all its
// replicas, and releases their resources. A replica that does not drain because its device is lost is not waited for:
// it is retired by itself in the background, however long that takes. It always ends with residency.Drained.
func (h *Host) drainVersion(ctx context.Context, e residency.Drain, all []*serving.Replica) {
	done := residency.Drained{Model: e.Model, Number: e.Number}
	for _, r := range all {
		err := r.Drain(ctx)
		if err != nil && !errors.Is(err, fleet.ErrLeftBehind) {
			// ctx has ended. Runs may still use the memory, so that nothing is released.
			done.Interrupted, done.Err = true, err
			break
		}
		if err == nil {
			err = r.Release()
		}
		done.Err = errors.Join(done.Err, err)
	}
	h.mu.Lock()
	for l := range h.listeners {
		if l.model == e.Model && l.number == e.Number && !done.Interrupted {
			l.closed, l.unclean = true, done.Err
		}
	}
	// Close is under way, and returns the errors of all.
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

// forget removes replicas that residency does not refer to any more. The caller holds Host.mu.
func (h *Host) forget(all []*serving.Replica) {
	retiring := h.residency.Retiring()
	for _, r := range all {
		if !slices.Contains(retiring, r.Key) { // else its device was lost, and it is retired by itself
			delete(h.replicas, r.Key)
		}
	}
}

// finish carries out residency.Retire for a replica that is not published any more. If it has not drained when ctx
// ends, Close retires it.
func (h *Host) finish(ctx context.Context, r *serving.Replica) {
	if !r.Finish(ctx) {
		return
	}
	h.mu.Lock()
	delete(h.replicas, r.Key)
	rest := h.stepLocked(residency.Retired{Replica: r.Key})
	h.mu.Unlock()
	rest()
}

// memoryFreed tells residency how much memory the budget has left, so that versions which failed because of it are
// tried again.
func (h *Host) memoryFreed() {
	h.mu.Lock()
	rest := h.stepLocked(residency.MemoryFreed{Free: h.memory.Free()})
	h.mu.Unlock()
	rest()
}

// finishNow is finish while the host is being closed. A replica that does not drain because its device is lost is left
// behind.
func (h *Host) finishNow(ctx context.Context, r *serving.Replica) {
	err := r.Drain(ctx)
	if err == nil {
		h.finish(ctx, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing(err)
}

// closeAll unloads every version side by side, and retires the replaced ones. The host is closed, and nothing is being
// loaded. The error joins those of all versions.
func (h *Host) closeAll(ctx context.Context) error {
	var (
		wg   sync.WaitGroup
		errs []error
	)
	h.mu.Lock()
	h.drains, h.start = ctx, wg.Go
	// It is called with Host.mu held, and errs is read after wg.Wait.
	h.closing = func(err error) { errs = append(errs, err) }
	rest := h.stepLocked(residency.Closed{})
	h.start = nil // latecomers are not waited for, so that nothing is added to wg during its wait
	h.mu.Unlock()
	rest()
	wg.Wait()
	return errors.Join(errs...)
}
