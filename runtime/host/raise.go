package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// A version that is on a device of a lower rank than its manifest prefers, for want of room, moves when there is room: it is loaded there
// beside what serves, and that is taken away. Nothing moves in the other direction, so that no version goes back and forth.

// lesser is what is known of a version that waits for a device of a better rank. The zero value is of one that does not.
type lesser struct {
	why    string // "" if it does not wait
	need   int64  // bytes
	due    bool   // a better device has room
	failed int    // attempts in a row to load it there
	until  time.Time
}

const (
	// lookAboveEvery is how often it is looked whether a better device has room.
	lookAboveEvery = 5 * time.Second
	// maxRaiseDoublings bounds the wait after attempts that failed: scarceFor after the first, twice as long after each further one,
	// about an hour at most. Each loads the model beside others that serve.
	maxRaiseDoublings = 6
)

// failAgain notes an attempt that failed.
func (l *lesser) failAgain() {
	l.until = time.Now().Add(scarceFor << min(l.failed, maxRaiseDoublings))
	l.failed++
}

// rankOf returns the rank of a device.
func rankOf(name string, sites []Site) int {
	for _, s := range sites {
		if s.Device == name {
			return s.Rank
		}
	}
	return 0
}

// better returns the version's replica of the lowest rank, the last of several, and the devices that it should rather be on: those of a
// better rank that are not lost and do not have the version yet. The replica is nil if there is no such device.
func (f *fleet) better(v *version, sites []Site) (from *replica, above []Site) {
	for _, r := range v.list() {
		if from == nil || rankOf(r.device.name, sites) >= rankOf(from.device.name, sites) {
			from = r
		}
	}
	if from == nil {
		return nil, nil
	}
	rank := rankOf(from.device.name, sites)
	for _, s := range sites {
		if d := f.get(s.Device); s.Rank < rank && d.lost.Load() == nil && v.on(d) == nil {
			above = append(above, s)
		}
	}
	if len(above) == 0 {
		return nil, nil
	}
	return from, above
}

// settleFor notes that a version goes to a device because better ones have no room, if that is so. What is lost is not waited for.
func (h *Host) settleFor(v *version, d *device, sites []Site, need int64, full []catalog.FullDevice) {
	rank := rankOf(d.name, sites)
	full = slices.DeleteFunc(full, func(f catalog.FullDevice) bool { return f.Lost || rankOf(f.Name, sites) >= rank })
	if len(full) == 0 {
		return
	}
	l := lesser{why: waitsAbove(d.name, need, full), need: need}
	if slices.ContainsFunc(full, func(f catalog.FullDevice) bool { return f.Cause != nil }) {
		l.failAgain()
	}
	h.mu.Lock()
	v.lesser = l
	h.mu.Unlock()
	h.log.Warn("a model version is on another device than its manifest prefers", "model", v.model, "version", v.number, "cause", l.why)
}

// waitsAbove words that a version waits, and what speaks against the better devices.
func waitsAbove(on string, need int64, full []catalog.FullDevice) string {
	e := catalog.PlacementError{Need: need, Devices: full}
	return fmt.Sprintf("it is on %s for now, and moves when a device that its manifest prefers has room for it; it %s", on, e.Shortage())
}

// lookAbove has a version raised that waits for a better device, if one has room by now.
func (h *Host) lookAbove(v *version) {
	h.mu.Lock()
	l := v.lesser
	h.mu.Unlock()
	if l.why == "" || l.due || time.Now().Before(l.until) || !v.ready.Load() {
		return
	}
	sites, err := h.sites(v.from)
	if err != nil {
		return
	}
	_, above := h.fleet.better(v, sites)
	if len(above) == 0 { // they are lost
		h.republish(v, func() { v.lesser = lesser{} })
		return
	}
	open, _ := h.fleet.states(above, room{need: l.need})
	h.mu.Lock()
	v.lesser.until = time.Now().Add(lookAboveEvery)
	v.lesser.due = len(open) > 0
	h.mu.Unlock()
	if len(open) > 0 {
		h.settleLater(v.model)
	}
}

// toRaise returns those versions that stay, wanted or kept, that a better device has room for, if their files are still what was loaded.
func (m *model) toRaise(wanted []candidate, kept map[int64]string) []candidate {
	all := slices.Clone(wanted)
	for n := range kept {
		if v := numbered(m.listed, n); v != nil && v.Err == nil && m.versions[n].resident != nil {
			all = append(all, candidate{model: m.listed.Name, version: *v, manifest: m.versions[n].resident.settings})
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool {
		e := m.versions[c.version.Number]
		return e == nil || e.claimed || e.loading || !e.current(c) || !e.resident.lesser.due
	})
}

// raise moves the version's replica of the lowest rank to a device of a better one. The caller has the model's turn.
func (h *Host) raise(ctx context.Context, c candidate) {
	h.mu.Lock()
	v := h.models[c.model].versions[c.version.Number].resident
	if v != nil {
		v.lesser.due = false
	}
	h.mu.Unlock()
	if v == nil {
		return // its device was lost meanwhile
	}
	sites, err := h.sites(c)
	if err != nil {
		return
	}
	from, above := h.fleet.better(v, sites)
	if from == nil {
		return
	}
	r, err := h.placeOn(ctx, c, v, nil, above)
	if err == nil && !slices.ContainsFunc(above, func(s Site) bool { return s.Device == r.device.name }) {
		h.retireLater(r)
		err = errSameDevice // as good as
	}
	switch {
	case err != nil && ctx.Err() != nil:
	case errors.Is(err, errSameDevice):
		h.republish(v, func() { v.lesser = lesser{} })
		h.log.Warn("a model version stays where it is, because its engine cannot have it on the device that its manifest prefers",
			"model", c.model, "version", c.version.Number, "device", from.device.name)
	case err != nil:
		h.notRaised(c, v, from, err)
	default:
		h.moveUp(c, v, from, r, sites)
	}
}

// notRaised notes why a version could not be loaded on a better device. That the room was taken in the meantime is no failure.
func (h *Host) notRaised(c candidate, v *version, from *replica, err error) {
	if e, is := errors.AsType[*catalog.PlacementError](err); is && len(e.Unwrap()) == 0 {
		return
	}
	h.republish(v, func() {
		v.lesser.failAgain()
		v.lesser.why = fmt.Sprintf("it is on %s for now; loading it on a device that its manifest prefers failed, and is tried again: %v",
			from.device.name, err)
	})
	h.log.Warn("a model version cannot be loaded on the device that its manifest prefers", "model", c.model, "version", c.version.Number, "cause", err)
}

// moveUp publishes a replica in the place of another one of its version, which is retired.
func (h *Host) moveUp(c candidate, v *version, from, to *replica, sites []Site) {
	out := to // unless it is published
	h.updateVersion(c.model, c.version.Number, func(e *entry, public *catalog.Version) {
		if e.resident != v {
			return // its device was lost meanwhile
		}
		out = from
		all := slices.DeleteFunc(append(slices.Clone(v.list()), to), func(r *replica) bool { return r == from })
		slices.SortStableFunc(all, func(a, b *replica) int {
			return cmp.Compare(rankOf(a.device.name, sites), rankOf(b.device.name, sites))
		})
		v.change(all)
		v.scarce, v.noted, v.until = "", "", time.Time{} // there may be room for more of the better rank
		need := v.lesser.need
		v.lesser = lesser{}
		if next, _ := h.fleet.better(v, sites); next != nil {
			v.lesser = lesser{why: waitsAbove(next.device.name, need, nil), need: need}
		}
		public.Signature = all[0].signature // which has the notes of its engine
		describe(public, v.settings, all[0].verdict.under(&v.settings.Batching))
		v.publish(public)
	})
	h.retireLater(out)
	if out != to {
		h.log.Info("a model version moved to a device that its manifest prefers", "model", c.model, "version", c.version.Number,
			"from", from.device.name, "to", to.device.name)
		h.leaveLost(v)
	}
}
