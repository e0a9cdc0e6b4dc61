package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// lesser is what is known of a version that waits for a device of a better rank. The zero value is of one that does not.
type lesser struct {
	why  string    // "" if it does not wait
	said time.Time // when why was published
	need int64     // bytes
	// full and due are devices of a better rank: those that had no room when that was known last, and those that have.
	full, due []string
	raising   bool // it is being loaded on one of them, and not looked at
	failed    int  // attempts in a row to do that
	until     time.Time
}

const (
	// lookAboveEvery is how often it is looked whether a better device has room.
	lookAboveEvery = 5 * time.Second
	// sayAgainAfter is how long what is said of the room on better devices stays as it is: free memory is a bit different at each look.
	sayAgainAfter = time.Minute
	// maxRaiseDoublings bounds the wait after attempts that failed: scarceFor after the first, twice as long after each further one,
	// about an hour at most. Each loads the model beside others that serve.
	maxRaiseDoublings = 6
)

// waits reports whether it is time to look for room.
func (l *lesser) waits() bool { return l.why != "" && !l.raising && !time.Now().Before(l.until) }

// say changes what is published of the version. It reports whether there is something new to publish.
func (l *lesser) say(why string) bool {
	if why == l.why {
		return false
	}
	l.why, l.said = why, time.Now()
	return true
}

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
	l := lesser{need: need}
	l.say(waitsAbove(d.name, need, full))
	for _, f := range full {
		if f.Cause == nil {
			l.full = append(l.full, f.Name)
		}
	}
	if len(l.full) < len(full) {
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

// waitsOn is waitsAbove before anybody looked at the better devices.
func waitsOn(on string, need int64, above []Site) string {
	var names []string
	for _, s := range above {
		names = append(names, s.Device)
	}
	return waitsAbove(on, need, nil) + " on " + strings.Join(names, " or ")
}

// outlook is a version that waits, the replica that is to move, and where to.
type outlook struct {
	of    *version
	from  *replica
	above []Site
}

// lookAbove has those versions raised that wait for a better device, if one has room by now. Each device is asked once for all of them.
func (h *Host) lookAbove() {
	var all []outlook
	var sites []Site
	for _, v := range h.residents() {
		if o := h.outlook(v); o != nil {
			all = append(all, *o)
			sites = append(sites, o.above...)
		}
	}
	free := h.fleet.freeMemory(sites)
	for _, o := range all {
		h.noteRoom(o, free)
	}
}

// outlook returns what a version waits for if it is time to look for room, else nil.
func (h *Host) outlook(v *version) *outlook {
	h.mu.Lock()
	waits := v.lesser.waits() && v.ready.Load()
	h.mu.Unlock()
	if !waits {
		return nil
	}
	sites, err := h.sites(v.from)
	if err != nil {
		return nil
	}
	from, above := h.fleet.better(v, sites)
	if len(above) == 0 { // they are lost
		h.republish(v, func() bool {
			v.lesser = lesser{}
			return true
		})
		return nil
	}
	return &outlook{v, from, above}
}

// noteRoom notes which better devices have room for a version that waits, where so many bytes are free, and has it raised if any.
func (h *Host) noteRoom(o outlook, free map[string]int64) {
	due := false
	h.republish(o.of, func() bool {
		l := &o.of.lesser
		if !l.waits() { // any more
			return false
		}
		open, full := h.fleet.states(o.above, room{need: l.need, wary: l.full}, free)
		l.due, l.full = nil, nil
		for _, d := range open {
			l.due = append(l.due, d.Name)
		}
		for _, d := range full {
			l.full = append(l.full, d.Name)
		}
		due = len(open) > 0
		return !due && time.Since(l.said) >= sayAgainAfter && l.say(waitsAbove(o.from.device.name, l.need, full))
	})
	if due {
		h.settleLater(o.of.model)
	}
}

// named returns those of the sites that are named.
func named(sites []Site, names []string) []Site {
	return slices.DeleteFunc(slices.Clone(sites), func(s Site) bool { return !slices.Contains(names, s.Device) })
}
