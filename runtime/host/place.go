package host

import (
	"context"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// place opens a version on one more device, the best there is, and makes it ready to serve there; it is not published
// yet. before is the version that it takes the place of, or nil. A version that fails because of its device is tried on
// the next one. The Wait, if any, says which better devices have no room now. The error is a *catalog.PlacementError, a
// *catalog.MemoryError, that of the engine, or the cause of ctx.
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

// placeOn is place with the given devices only.
func (h *Host) placeOn(ctx context.Context, c residency.Candidate,
	v, before *serving.Version, sites []Site,
) (ready *serving.Replica, wait *residency.Wait, err error) {
	// The steps of a pipeline need the room, and the slots for loading, that it would hold.
	if err := v.TakeSteps(ctx); err != nil {
		return nil, nil, err
	}
	defer func() {
		if ready == nil && len(v.Replicas()) == 0 {
			v.LetSteps()
		}
	}()
	wanted := fleet.Room{Need: estimate(&c), Prefer: h.preferred(v, before), Against: map[string]error{}}
	for _, r := range v.Replicas() {
		wanted.Against[r.Device.Name] = fleet.ErrResident
	}
	// The costs of the version that is replaced are the best guess of the costs of the new one.
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
		// The budget comes before the devices: a version that it refuses must not make a device look full to others
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
			// A version on another device than the one asked for waits for nothing: its engine cannot have it there.
			if len(v.Replicas()) == 0 && r.Device == d {
				return r, h.waitFor(v, d, sites, wanted.Need, full), nil
			}
			return r, nil, nil
		}
		// The model is at fault, and not the device.
		if d.Name == "" || d.Lost() == nil && engine.KindOf(err) != engine.OutOfMemory {
			return nil, nil, err
		}
		// Each round rules out one device, so that the loop ends.
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

// blamed returns an error for a version that has broken so many devices that it may not try another.
func (h *Host) blamed(c residency.Candidate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residency.Blamed(&c)
}

// waitFor returns why a version is not on a better device, for residency to look there again later; nil if it is on the
// best. Lost devices are left out: when one comes back residency hears of it anyway.
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

// peers returns the sites of the rank that the version's replicas have. A device that is only a last resort gets no
// further replicas.
func peers(v *serving.Version, sites []Site) []Site {
	rank := 0
	if all := v.Replicas(); len(all) > 0 {
		rank = placement.Rank(all[0].Device.Name, sites)
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return s.Rank != rank })
}

// preferred returns the device on which a version is expected to do best: that of the version whose place it takes,
// else that of one with a near number, from which it inherits costs; "" if there is none. Moving without need would
// measure the costs anew.
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

// near returns the replica whose costs are the best guess for a version, by serving.Nearest, among the resident
// versions of the model; on may be nil for any device.
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

// synthMemory is the memory that a synthetic model counts as, in bytes, so that a budget bounds their number, too.
const synthMemory = 1 << 20

// estimate returns how many bytes a version is expected to need, before it is opened. The model that a pipeline's steps
// are joined into has the weights of all of them; steps of one version share theirs.
func estimate(c *residency.Candidate) (bytes int64) { return Estimate(&c.Version, c.Manifest) }

// Estimate is the estimate of Config.MemoryBudget.
func Estimate(v *modelrepo.Version, m *modelrepo.Manifest) (bytes int64) {
	switch p := v.Pipeline; {
	case m.Synth != nil:
		return synthMemory
	case p == nil:
		return fleet.Estimate(v.Dir)
	default:
		counted := map[string]bool{}
		for _, s := range p.Steps {
			if !counted[s.Of.Dir] {
				bytes += fleet.Estimate(s.Of.Dir)
			}
			counted[s.Of.Dir] = true
		}
		return bytes
	}
}

// SetMemoryBudget changes Config.MemoryBudget. Versions that failed because it did not suffice are tried again if it
// does now. Resident versions stay, even beyond it.
func (h *Host) SetMemoryBudget(bytes int64) {
	h.memory.SetLimit(bytes)
	h.memoryFreed()
}
