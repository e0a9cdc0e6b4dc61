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
		return e == nil || e.claimed || e.loading || !e.current(c) || len(e.resident.lesser.due) == 0
	})
}

// raise moves the version's replica of the lowest rank to a device of a better one. The caller has the model's turn.
func (h *Host) raise(ctx context.Context, c candidate) {
	var due []string
	h.mu.Lock()
	v := h.models[c.model].versions[c.version.Number].resident
	if v != nil {
		due, v.lesser.due, v.lesser.raising = v.lesser.due, nil, true
	}
	h.mu.Unlock()
	if v == nil {
		return // its device was lost meanwhile
	}
	defer func() {
		h.mu.Lock()
		v.lesser.raising = false
		h.mu.Unlock()
	}()
	sites, err := h.sites(c)
	if err != nil {
		return
	}
	from, above := h.fleet.better(v, sites)
	open := named(above, due)
	if len(open) == 0 {
		return // they were lost meanwhile
	}
	r, err := h.placeOn(ctx, c, v, nil, open)
	if err == nil && len(named(above, []string{r.device.name})) == 0 {
		h.retireLater(r)
		err = errSameDevice // as good as
	}
	switch {
	case err != nil && ctx.Err() != nil:
	case errors.Is(err, errSameDevice):
		h.republish(v, func() bool {
			v.lesser = lesser{}
			return true
		})
		h.log.Warn("a model version stays where it is, because its engine cannot have it on the device that its manifest prefers",
			"model", c.model, "version", c.version.Number, "device", from.device.name)
	case err != nil:
		h.notRaised(c, v, from, err)
	default:
		h.moveUp(c, v, from, r, sites)
	}
}

// notRaised notes why a version could not be loaded on a better device. That the room was taken in the meantime, or that there is none
// in the budget of memory, is no failure: both end without anything that a load could spoil.
func (h *Host) notRaised(c candidate, v *version, from *replica, err error) {
	if e, is := errors.AsType[*catalog.PlacementError](err); is && len(e.Unwrap()) == 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, d := range e.Devices { // which matters if nothing is known of it at the next look
			v.lesser.full = append(v.lesser.full, d.Name)
		}
		return
	}
	_, short := errors.AsType[*catalog.MemoryError](err)
	told := false
	h.republish(v, func() bool {
		l := &v.lesser
		if short {
			told = l.say(fmt.Sprintf("it is on %s for now, and moves when the memory budget has room for it on two devices at once: %v", from.device.name, err))
			return told
		}
		l.failAgain()
		told = l.say(fmt.Sprintf("it is on %s for now; loading it on a device that its manifest prefers failed, and is tried again: %v", from.device.name, err))
		return told
	})
	if told || !short {
		h.log.Warn("a model version cannot be loaded on the device that its manifest prefers", "model", c.model, "version", c.version.Number, "cause", err)
	}
}

// moveUp publishes a replica in the place of another one of its version, which is retired.
func (h *Host) moveUp(c candidate, v *version, from, to *replica, sites []Site) {
	published, moved := false, false
	h.updateVersion(c.model, c.version.Number, func(e *entry, public *catalog.Version) {
		if e.resident != v {
			return // its device was lost meanwhile
		}
		published, moved = true, slices.Contains(v.list(), from)
		all := slices.DeleteFunc(append(slices.Clone(v.list()), to), func(r *replica) bool { return r == from })
		slices.SortStableFunc(all, func(a, b *replica) int {
			return cmp.Compare(rankOf(a.device.name, sites), rankOf(b.device.name, sites))
		})
		v.change(all)
		v.scarce, v.noted, v.until = "", "", time.Time{} // there may be room for more of the better rank
		before := v.lesser
		v.lesser = lesser{}
		if next, above := h.fleet.better(v, sites); next != nil {
			v.lesser = lesser{why: waitsOn(next.device.name, before.need, above), need: before.need, full: before.full}
		}
		public.Signature = all[0].shown() // which has the notes of its engine
		describe(public, v.settings, all[0].judged(v.settings))
		v.publish(public)
	})
	if !published {
		h.retireLater(to)
		return
	}
	attrs := []any{"model", c.model, "version", c.version.Number, "to", to.device.name}
	if moved {
		h.retireLater(from)
		attrs = append(attrs, "from", from.device.name)
	} // else it was lost meanwhile, and is retired already
	h.log.Info("a model version moved to a device that its manifest prefers", attrs...)
	h.leaveLost(v)
}
