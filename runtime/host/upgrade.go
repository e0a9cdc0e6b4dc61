package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// lookAbove looks whether better devices have room for the versions that wait for one, and tells residency. Each device
// is asked once for all of them, without Host.mu, because a driver may take its time.
func (h *Host) lookAbove() {
	h.mu.Lock()
	all := h.residency.Outlooks(time.Now())
	h.mu.Unlock()
	var sites []Site
	for _, o := range all {
		sites = append(sites, o.Above...)
	}
	free := h.fleet.FreeMemory(sites)
	for _, o := range all {
		open, full := h.fleet.States(o.Above, fleet.Room{Need: o.Need, Wary: o.Full}, free)
		e := residency.RoomSeen{Model: o.Model, Number: o.Number, Resident: o.Resident, Full: full}
		for _, d := range open {
			e.Open = append(e.Open, d.Name)
		}
		h.step(e)
	}
}

// upgrade carries out residency.Upgrade: it opens a version on a better device than that of its worst replica. It
// always ends with residency.Upgraded, which takes the place of worst only if the new replica is where it was wanted.
func (h *Host) upgrade(ctx context.Context, e residency.Upgrade, v *serving.Version, worst *serving.Replica) {
	done := residency.Upgraded{Upgrade: e, On: worst.Device.Name}
	r, _, err := h.placeOn(ctx, e.Of, v, nil, e.To)
	// The engine has put it elsewhere, such as on the processor.
	if err == nil && !slices.ContainsFunc(e.To, func(s Site) bool { return s.Device == r.Device.Name }) {
		h.discard(r)
		err = fleet.ErrResident // as good as
	}
	full, unplaced := errors.AsType[*catalog.PlacementError](err)
	switch {
	case err == nil:
		to := h.enlist(r)
		done.To = &to
	case ctx.Err() != nil:
	case errors.Is(err, fleet.ErrResident):
		done.Stay = true
	case unplaced && len(full.Unwrap()) == 0: // the room was taken in the meantime, which is no failure
		for _, d := range full.Devices {
			done.Full = append(done.Full, d.Name)
		}
	default:
		done.Err = err
		// nor is this: it ends without anything that a load could spoil
		_, done.Short = errors.AsType[*catalog.MemoryError](err)
	}
	h.step(done)
}
