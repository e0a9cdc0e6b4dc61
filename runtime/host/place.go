package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/residency"
)

// place opens a version on one more device, the best there is, and makes it ready to serve there; it is not published
// yet. before is the version that it takes the place of, or nil. What fails for its device's sake is tried on the next
// one.
func (h *Host) place(ctx context.Context, c residency.Candidate, v, before *version) (*replica, error) {
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
func (h *Host) placeOn(ctx context.Context, c residency.Candidate, v, before *version, sites []Site) (*replica, error) {
	wanted := fleet.Room{Need: estimate(&c), Prefer: h.preferred(v, before), Against: map[string]error{}}
	for _, r := range v.list() {
		wanted.Against[r.device.Name] = fleet.ErrResident
	}
	for ctx.Err() == nil {
		if err := h.blamed(c); err != nil {
			return nil, err
		}
		// Looked at before a device is: a version that the budget refuses must not make the device look full to others
		// meanwhile.
		if err := h.memory.Fits(c.Model, c.Version.Number, wanted.Need); err != nil {
			return nil, err
		}
		d, full := h.fleet.Reserve(sites, wanted)
		if d == nil {
			return nil, &catalog.PlacementError{
				Model: c.Model, Version: c.Version.Number, Need: wanted.Need,
				Devices: full,
			}
		}
		r, err := h.openOn(ctx, c, v, d, before, wanted.Need)
		if err == nil {
			// else the engine cannot have it on the devices that it was asked to
			if len(v.list()) == 0 && r.device == d {
				h.waitFor(v, d, sites, wanted.Need, full)
			}
			return r, nil
		}
		if d.Name == "" || d.Lost() == nil && engine.KindOf(err) != engine.OutOfMemory {
			return nil, err
		}
		wanted.Against[d.Name] = err
		d.AwaitKnown(ctx) // so that the version is blamed for it
	}
	return nil, context.Cause(ctx)
}

// sites returns the devices that may run a version.
func (h *Host) sites(c residency.Candidate) ([]Site, error) {
	if h.cfg.Sites == nil {
		return []Site{{}}, nil
	}
	return h.cfg.Sites(c.Version, c.Manifest)
}

// blamed returns an error for what has broken too many devices.
func (h *Host) blamed(c residency.Candidate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residency.Blamed(&c)
}

// waitFor notes that a version goes to a device because better ones have no room, if that is so. What is lost is not
// waited for.
func (h *Host) waitFor(v *version, d *fleet.Device, sites []Site, need int64, full []catalog.FullDevice) {
	rank := placement.Rank(d.Name, sites)
	full = slices.DeleteFunc(full,
		func(f catalog.FullDevice) bool { return f.Lost || placement.Rank(f.Name, sites) >= rank })
	if len(full) == 0 {
		return
	}
	w := &residency.Wait{Need: need, Why: residency.WaitsAbove(d.Name, need, full)}
	for _, f := range full {
		if f.Cause == nil {
			w.Full = append(w.Full, f.Name)
		}
	}
	w.Failed = len(w.Full) < len(full)
	v.wait = w
	h.log.Warn("a model version is on another device than its manifest prefers", "model", v.model, "version", v.number,
		"cause", w.Why)
}

// peers returns the sites of the rank that the version's replicas have: what is only a last resort gets no further
// ones.
func peers(v *version, sites []Site) []Site {
	rank := 0
	if all := v.list(); len(all) > 0 {
		rank = placement.Rank(all[0].device.Name, sites)
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return s.Rank != rank })
}

// preferred returns the device on which a version is expected to be at home: that of the version whose place it takes,
// or of one near it, whose costs it inherits there; "" if there is none.
func (h *Host) preferred(v, before *version) string {
	if before != nil {
		if all := before.list(); len(all) > 0 { // else its device was lost
			return all[0].device.Name
		}
	}
	if r := h.near(v.model, v.number, nil); r != nil {
		return r.device.Name
	}
	return ""
}

// openOn opens a version on a device, where so much memory was reserved for it, and admits it.
func (h *Host) openOn(ctx context.Context, c residency.Candidate, v *version, d *fleet.Device, before *version,
	reserved int64,
) (*replica, error) {
	release := hold(ctx, h.opening)
	var r *replica
	err := cannotBeOn(c, d) // it may have been lost while others were opened there
	if err == nil {
		r, err = h.open(ctx, c, v, d, reserved)
	}
	release()
	h.fleet.Settle(d, reserved) // from here on the device itself shows what it takes
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
		err = fmt.Errorf("%s on %s: %w", c.Path(), r.device.Name, fleet.ErrResident)
	default:
		if before != nil {
			replaces = before.on(r.device)
		}
		err = r.device.During(ctx, func(ctx context.Context) error { return h.admit(ctx, c, r, replaces) },
			func(err error) {
				if err == nil {
					h.finish(context.Background(), r)
					return
				}
				h.tellUnclean(v, r.device, h.closeSession(r))
			})
	}
	switch {
	case errors.Is(err, fleet.ErrLeftBehind): // something may run there still, so that its session cannot be closed
		h.memory.Give(r.memory)
		return nil, lostMeanwhile(c, r.device, "warmed up", err)
	case err != nil:
		return nil, errors.Join(err, h.closeSession(r))
	}
	return r, nil
}

// cannotBeOn returns an error if a device is lost.
func cannotBeOn(c residency.Candidate, d *fleet.Device) error {
	if cause := d.Lost(); cause != nil {
		return fmt.Errorf("%s: %w: %w", c.Path(), catalog.ErrDeviceLost, cause)
	}
	return nil
}

// lostMeanwhile returns the error for what was left behind on a device.
func lostMeanwhile(c residency.Candidate, d *fleet.Device, doing string, err error) error {
	return fmt.Errorf("%s: the device %s was lost (%w) while the model was %s there: %w", c.Path(), d.Name, d.Lost(),
		doing, err)
}

// on returns the version's replica on a device, or nil.
func (v *version) on(d *fleet.Device) *replica {
	for _, r := range v.list() {
		if r.device == d {
			return r
		}
	}
	return nil
}

// open opens the model, which is expected to need so many bytes, in its engine.
func (h *Host) open(ctx context.Context, c residency.Candidate, v *version, on *fleet.Device,
	bytes int64,
) (r *replica, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	memory, err := h.memory.Take(c.Model, c.Version.Number, bytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil {
			h.memory.Give(memory)
		}
	}()
	var opened engine.Opened // this and loaded are not to be looked at here once the engine is left behind
	var loaded *execution.Loaded
	err = on.During(ctx, func(ctx context.Context) (err error) {
		opened, loaded, err = h.engage(ctx, c, on)
		return err
	}, func(err error) {
		if err == nil { // nobody waits for it any more
			h.tellUnclean(v, on, loaded.Close())
		}
	})
	if errors.Is(err, fleet.ErrLeftBehind) {
		return nil, lostMeanwhile(c, on, "opened", err)
	}
	if err != nil {
		if engine.KindOf(err) == engine.DeviceLost && on.Name != "" {
			h.lose(on, err, v)
		}
		return nil, err
	}
	d := h.fleet.Get(opened.Device)
	h.fleet.Count(d, 1)
	r = &replica{
		host: h, version: v, device: d, opened: opened, proof: v.proofs.Load(), memory: memory,
		seats: new(atomic.Int32),
	}
	loaded.Keep(d.Lanes)
	r.unit = r.newUnit(loaded)
	return r, nil
}

// engage calls the engine to open the model. A panic there becomes an error.
func (h *Host) engage(ctx context.Context, c residency.Candidate,
	on *fleet.Device,
) (opened engine.Opened, loaded *execution.Loaded, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the engine panicked: %v", c.Path(), p)
		}
	}()
	opened, err = h.cfg.Open(ctx, c.Version, c.Manifest, on.Name)
	if err == nil {
		loaded = execution.Load(opened)
	}
	return opened, loaded, err
}
