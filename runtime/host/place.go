package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
)

// errSameDevice says that an engine put a version where it is already, because it cannot run it on the device that it was asked to.
var errSameDevice = errors.New("the version is on that device already")

// place opens a version on one more device, the best there is, and makes it ready to serve there; it is not published yet. before is
// the version that it takes the place of, or nil. What fails for its device's sake is tried on the next one.
func (h *Host) place(ctx context.Context, c candidate, v, before *version) (*replica, error) {
	sites, err := h.sites(c)
	if err != nil {
		return nil, err
	}
	if len(sites) > 1 {
		h.watchLoad()
	}
	if len(v.list()) > 0 {
		sites = peers(v, sites)
	}
	return h.placeOn(ctx, c, v, before, sites)
}

// placeOn is place for some of the devices.
func (h *Host) placeOn(ctx context.Context, c candidate, v, before *version, sites []Site) (*replica, error) {
	wanted := room{need: c.estimate(), prefer: h.preferred(v, before), against: map[string]error{}}
	for _, r := range v.list() {
		wanted.against[r.device.name] = errSameDevice
	}
	for ctx.Err() == nil {
		if err := h.blamed(c); err != nil {
			return nil, err
		}
		// Looked at before a device is: a version that the budget refuses must not make the device look full to others meanwhile.
		if err := h.memory.fits(c, wanted.need); err != nil {
			return nil, err
		}
		d, full := h.fleet.reserve(sites, wanted)
		if d == nil {
			return nil, &catalog.PlacementError{Model: c.model, Version: c.version.Number, Need: wanted.need, Devices: full}
		}
		r, err := h.openOn(ctx, c, v, d, before, wanted.need)
		if err == nil {
			if len(v.list()) == 0 && r.device == d { // else the engine cannot have it on the devices that it was asked to
				h.settleFor(v, d, sites, wanted.need, full)
			}
			return r, nil
		}
		if d.name == "" || d.lost.Load() == nil && engine.KindOf(err) != engine.OutOfMemory {
			return nil, err
		}
		wanted.against[d.name] = err
	}
	return nil, context.Cause(ctx)
}

// sites returns the devices that may run a version.
func (h *Host) sites(c candidate) ([]Site, error) {
	if h.cfg.Sites == nil {
		return []Site{{}}, nil
	}
	return h.cfg.Sites(c.version, c.manifest)
}

// preferred returns the device on which a version is expected to be at home: that of the version whose place it takes, or of one near
// it, whose costs it inherits there; "" if there is none.
func (h *Host) preferred(v, before *version) string {
	if before != nil {
		if all := before.list(); len(all) > 0 { // else its device was lost
			return all[0].device.name
		}
	}
	if r := h.near(v.model, v.number, nil); r != nil {
		return r.device.name
	}
	return ""
}

// openOn opens a version on a device, where so much memory was reserved for it, and admits it.
func (h *Host) openOn(ctx context.Context, c candidate, v *version, d *device, before *version, reserved int64) (*replica, error) {
	release := hold(ctx, h.opening)
	var r *replica
	err := cannotBeOn(c, d) // it may have been lost while others were opened there
	if err == nil {
		r, err = h.open(ctx, c, v, d, reserved)
	}
	release()
	h.fleet.settle(d, reserved) // from here on the device itself shows what it takes
	if err != nil {
		return nil, err
	}
	release = hold(ctx, h.proving)
	defer release()
	var replaces *replica
	err = cannotBeOn(c, r.device)
	switch {
	case err != nil:
	case v.on(r.device) != nil:
		err = fmt.Errorf("%s on %s: %w", c.path(), r.device.name, errSameDevice)
	default:
		if before != nil {
			replaces = before.on(r.device)
		}
		err = r.device.during(ctx, func(ctx context.Context) error { return h.admit(ctx, c, r, replaces) }, func(err error) {
			if err == nil {
				h.finish(context.Background(), r)
				return
			}
			h.tellUnclean(v, r.device, h.closeSession(r))
		})
	}
	switch {
	case errors.Is(err, errLeftBehind): // something may run there still, so that its session cannot be closed
		h.memory.give(r.memory)
		return nil, lostMeanwhile(c, r.device, "warmed up", err)
	case err != nil:
		return nil, errors.Join(err, h.closeSession(r))
	}
	return r, nil
}

// cannotBeOn returns an error if a device is lost.
func cannotBeOn(c candidate, d *device) error {
	if cause := d.lost.Load(); cause != nil {
		return fmt.Errorf("%s: %w: %w", c.path(), catalog.ErrDeviceLost, *cause)
	}
	return nil
}

// lostMeanwhile returns the error for what was left behind on a device.
func lostMeanwhile(c candidate, d *device, doing string, err error) error {
	return fmt.Errorf("%s: the device %s was lost (%w) while the model was %s there: %w", c.path(), d.name, *d.lost.Load(), doing, err)
}

// on returns the version's replica on a device, or nil.
func (v *version) on(d *device) *replica {
	for _, r := range v.list() {
		if r.device == d {
			return r
		}
	}
	return nil
}

// open opens the model, which is expected to need so many bytes, in its engine.
func (h *Host) open(ctx context.Context, c candidate, v *version, on *device, bytes int64) (r *replica, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	memory, err := h.memory.take(c, bytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil {
			h.memory.give(memory)
		}
	}()
	var opened engine.Opened // this and loaded are not to be looked at here once the engine is left behind
	var loaded *execution.Loaded
	err = on.during(ctx, func(ctx context.Context) (err error) {
		opened, loaded, err = h.engage(ctx, c, on)
		return err
	}, func(err error) {
		if err == nil { // nobody waits for it any more
			h.tellUnclean(v, on, loaded.Close())
		}
	})
	if errors.Is(err, errLeftBehind) {
		return nil, lostMeanwhile(c, on, "opened", err)
	}
	if err != nil {
		if engine.KindOf(err) == engine.DeviceLost && on.name != "" {
			h.lose(on, err, v)
		}
		return nil, err
	}
	d := h.fleet.get(opened.Device)
	h.fleet.count(d, 1)
	r = &replica{host: h, version: v, device: d, opened: opened, proof: v.proofs.Load(), memory: memory}
	r.seats = new(atomic.Int32)
	loaded.Keep(d.lanes)
	r.unit = r.newUnit(loaded)
	return r, nil
}

// engage calls the engine to open the model. A panic there becomes an error.
func (h *Host) engage(ctx context.Context, c candidate, on *device) (opened engine.Opened, loaded *execution.Loaded, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the engine panicked: %v", c.path(), p)
		}
	}()
	opened, err = h.cfg.Open(ctx, c.version, c.manifest, on.name)
	if err == nil {
		loaded = execution.Load(opened)
	}
	return opened, loaded, err
}
