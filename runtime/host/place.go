package host

import (
	"context"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// place opens a version on one more device, the best there is, and makes it ready to serve there; it is not published
// yet. before is the version that it takes the place of, or nil. A version that fails because of its device is tried on
// the next one.
func (h *Host) place(ctx context.Context, c residency.Candidate,
	v, before *serving.Version,
) (*serving.Replica, *residency.Wait, error) {
	sites, err := h.sites(c)
	if err != nil {
		return nil, nil, err
	}
	if len(sites) > 1 {
		h.watchLoad()
	}
	if len(v.Replicas()) > 0 {
		sites = peers(v, sites)
	}
	return h.placeOn(ctx, c, v, before, sites)
}

// placeOn is place for some of the devices.
func (h *Host) placeOn(ctx context.Context, c residency.Candidate,
	v, before *serving.Version, sites []Site,
) (*serving.Replica, *residency.Wait, error) {
	wanted := fleet.Room{Need: estimate(&c), Prefer: h.preferred(v, before), Against: map[string]error{}}
	for _, r := range v.Replicas() {
		wanted.Against[r.Device.Name] = fleet.ErrResident
	}
	near := func(on *fleet.Device) *serving.Replica {
		if before != nil {
			if r := before.On(on); r != nil {
				return r
			}
		}
		return h.near(v.Model, v.Number, on)
	}
	for ctx.Err() == nil {
		if err := h.blamed(c); err != nil {
			return nil, nil, err
		}
		// Looked at before a device is: a version that the budget refuses must not make the device look full to others
		// meanwhile.
		if err := h.memory.Fits(c.Model, c.Version.Number, wanted.Need); err != nil {
			return nil, nil, err
		}
		d, full := h.fleet.Reserve(sites, wanted)
		if d == nil {
			return nil, nil, &catalog.PlacementError{
				Model: c.Model, Version: c.Version.Number, Need: wanted.Need,
				Devices: full,
			}
		}
		r, err := v.Open(ctx, c, d, wanted.Need, near)
		if err == nil {
			// On another device than the one asked for it does not wait: its engine cannot have it there.
			if len(v.Replicas()) == 0 && r.Device == d {
				return r, h.waitFor(v, d, sites, wanted.Need, full), nil
			}
			return r, nil, nil
		}
		if d.Name == "" || d.Lost() == nil && engine.KindOf(err) != engine.OutOfMemory {
			return nil, nil, err
		}
		wanted.Against[d.Name] = err
		d.AwaitKnown(ctx) // so that the version is blamed for it
	}
	return nil, nil, context.Cause(ctx)
}

// sites returns the devices that may run a version.
func (h *Host) sites(c residency.Candidate) ([]Site, error) {
	if h.cfg.Sites == nil {
		return []Site{{}}, nil
	}
	return h.cfg.Sites(c.Version, c.Manifest)
}

// blamed returns an error for a version that has broken too many devices.
func (h *Host) blamed(c residency.Candidate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residency.Blamed(&c)
}

// waitFor notes that a version goes to a device because better ones have no room, if that is so. It does not wait for
// lost devices.
func (h *Host) waitFor(v *serving.Version, d *fleet.Device, sites []Site, need int64,
	full []catalog.FullDevice,
) *residency.Wait {
	rank := placement.Rank(d.Name, sites)
	full = slices.DeleteFunc(full,
		func(f catalog.FullDevice) bool { return f.Lost || placement.Rank(f.Name, sites) >= rank })
	if len(full) == 0 {
		return nil
	}
	w := &residency.Wait{Need: need, Why: residency.WaitsAbove(d.Name, need, full)}
	for _, f := range full {
		if f.Cause == nil {
			w.Full = append(w.Full, f.Name)
		}
	}
	w.Failed = len(w.Full) < len(full)
	h.log.Warn("version not on its preferred device", "event", "version_waits_for_device",
		"model", v.Model, "version", v.Number, "cause", w.Why)
	return w
}

// peers returns the sites of the rank that the version's replicas have: a device that is only a last resort gets no
// further replicas.
func peers(v *serving.Version, sites []Site) []Site {
	rank := 0
	if all := v.Replicas(); len(all) > 0 {
		rank = placement.Rank(all[0].Device.Name, sites)
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return s.Rank != rank })
}

// preferred returns the device on which a version is expected to be at home: that of the version whose place it takes,
// or of one near it, whose costs it inherits there; "" if there is none.
func (h *Host) preferred(v, before *serving.Version) string {
	if before != nil {
		if all := before.Replicas(); len(all) > 0 { // else its device was lost
			return all[0].Device.Name
		}
	}
	if r := h.near(v.Model, v.Number, nil); r != nil {
		return r.Device.Name
	}
	return ""
}

// near returns the replica of the resident version that comes before a number, as serving.Nearest does.
func (h *Host) near(model string, number int64, on *fleet.Device) *serving.Replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*serving.Replica
	if m := h.residency.Model(model); m != nil {
		for _, v := range m.Versions {
			if v.Resident != nil {
				all = append(all, h.replicasOf(v.Resident.Replicas)...)
			}
		}
	}
	return serving.Nearest(all, number, on)
}

// synthMemory is the size that a synthetic model counts as, in bytes.
const synthMemory = 1 << 20

// estimate returns how many bytes a version is expected to need.
func estimate(c *residency.Candidate) int64 {
	if c.Manifest.Synth != nil {
		return synthMemory
	}
	return fleet.Estimate(c.Version.Dir)
}

// SetMemoryBudget changes Config.MemoryBudget. Versions that failed for lack of it are tried again if it suffices now;
// resident versions stay.
func (h *Host) SetMemoryBudget(bytes int64) {
	h.memory.SetLimit(bytes)
	h.memoryFreed()
}
