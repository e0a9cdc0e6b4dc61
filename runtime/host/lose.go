package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/sharedsched"
)

// LoseDevice takes a device out of use until the server is started anew: what a process holds on a device that failed does not come
// back. Sessions that fail for that reason say so themselves; this is for who learns of it in another way. Requests that wait on it
// are run on other replicas, and versions that have none are loaded elsewhere if they can be.
func (h *Host) LoseDevice(name string, cause error) { h.lose(h.fleet.get(name), cause, nil) }

// lose takes a device out of use, once. It returns at once. by is what ran on it when it failed, or was being opened there, or nil.
func (h *Host) lose(d *device, cause error, by *version) {
	if !d.lost.CompareAndSwap(nil, &cause) {
		return
	}
	close(d.failed)
	e := residency.DeviceLost{Device: d.id(), Cause: cause}
	if by != nil {
		of := by.from.to()
		e.By = &of
	}
	h.inBackground(func() { // else all is being unloaded anyway
		h.step(e)
		close(d.told)
	})
}

// lostPatience is how long what was begun on a device may take once it is lost. Its driver may never return.
const lostPatience = 5 * time.Second

// errLeftBehind says that what was begun on a device did not end in time after that was lost.
var errLeftBehind = errors.New("is left behind")

// during has f done, in a goroutine of its own, and returns its error. On a device that is lost, or gets lost meanwhile, f has
// lostPatience left: then its context ends, the error is errLeftBehind, wrapped, and late, which may be nil, hears how f ended if it
// ever does.
func (d *device) during(ctx context.Context, f func(context.Context) error, late func(error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	case <-d.failed:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(lostPatience):
		close(left)
		return fmt.Errorf("it does not end on the lost device %s and %w", d.name, errLeftBehind)
	}
}

// awaitReplica returns nil when there is a replica for a request that was taken out of the queue of a lost device, or why there will
// be none. It waits while the version is loaded elsewhere, until the limit if there is one.
func (h *Host) awaitReplica(ctx context.Context, call *catalog.Call, limit time.Time) error {
	if !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, limit, sharedsched.ErrExpired)
		defer cancel()
	}
	for {
		h.mu.Lock()
		changed := h.changesLocked(call.Version.Model)
		h.mu.Unlock()
		v := h.resident(call.Version)
		if v != nil && v.pick(call.Rows) != nil {
			return nil
		}
		state := catalog.Failed
		if m := h.Snapshot().Model(call.Version.Model); m != nil && m.Version(call.Version.Number) != nil {
			state = m.Version(call.Version.Number).State
		}
		if v == nil && state != catalog.Loading {
			return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
