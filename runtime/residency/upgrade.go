package residency

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// A version that is on a device of a worse rank than its manifest prefers, for lack of room, is upgraded when there is
// room: it is loaded there next to the replica that serves, which is then taken away. Nothing moves in the other
// direction, so that no version goes back and forth.

// upgrade is the state of a version that waits for a better device. The zero value is that of one that does not wait.
type upgrade struct {
	why  string    // "": it does not wait
	said time.Time // when why was published
	need int64     // bytes
	// full and due are better devices: the ones that had no room when that was known last, and the ones that have.
	full, due []string
	trying    bool // it is being loaded on one of them
	failed    int  // attempts in a row
	until     time.Time
}

const (
	// sayAgainAfter is how long the published text on the room on better devices stays as it is: free memory is a bit
	// different at each look.
	sayAgainAfter = time.Minute
	// scarceFor is the wait after a failed attempt to have a further replica, or an upgrade. Further failures of an
	// upgrade double it maxUpgradeDoublings times, to about an hour: each attempt loads the model next to others that
	// serve.
	scarceFor           = time.Minute
	maxUpgradeDoublings = 6
)

// newUpgrade begins the wait of a version that was loaded.
func newUpgrade(w *Wait, now time.Time) upgrade {
	u := upgrade{why: w.Why, said: now, need: w.Need, full: w.Full}
	if w.Failed {
		u.fail(now)
	}
	return u
}

// waits reports whether it is time to look for room.
func (u *upgrade) waits(now time.Time) bool { return u.why != "" && !u.trying && !now.Before(u.until) }

// say changes the published text. It reports whether that is news.
func (u *upgrade) say(why string, now time.Time) bool {
	if why == u.why {
		return false
	}
	u.why, u.said = why, now
	return true
}

// fail notes an attempt that failed.
func (u *upgrade) fail(now time.Time) {
	u.until = now.Add(scarceFor << min(u.failed, maxUpgradeDoublings))
	u.failed++
}

// better returns the version's replica of the worst rank, the last of several, and the devices that it should rather be
// on: those of a better rank that are not lost and do not have the version yet. The replica is nil if there is no such
// device.
func (m *Machine) better(r *Resident) (from *Replica, above []placement.Site) {
	for i := range r.Replicas {
		if x := &r.Replicas[i]; from == nil || r.rank(x.Device.Name) >= r.rank(from.Device.Name) {
			from = x
		}
	}
	if from == nil {
		return nil, nil
	}
	rank := r.rank(from.Device.Name)
	for _, s := range r.sites {
		if s.Rank < rank && !m.isLost(s.Device) && !r.on(s.Device) {
			above = append(above, s)
		}
	}
	if len(above) == 0 {
		return nil, nil
	}
	return from, above
}

func (m *Machine) hasBetter(r *Resident) bool {
	from, _ := m.better(r)
	return from != nil
}

// upgrade begins to load versions on better devices that have room.
func (m *Machine) upgrade(model *Model, wanted []Candidate) (began bool) {
	for _, n := range slices.Sorted(maps.Keys(model.Versions)) {
		v := model.Versions[n]
		r := v.Resident
		if r == nil || len(r.wait.due) == 0 || !v.ready() || model.listed == nil {
			continue
		}
		found := numbered(model.listed, n)
		if found == nil || found.Err != nil {
			continue
		}
		c := Candidate{Model: model.Name, Version: *found, Manifest: r.Settings}
		if i := slices.IndexFunc(wanted, func(c Candidate) bool { return c.Version.Number == n }); i >= 0 {
			c = wanted[i]
		}
		from, above := m.better(r)
		due := r.wait.due
		r.wait.due = nil
		above = slices.DeleteFunc(above, func(s placement.Site) bool { return !slices.Contains(due, s.Device) })
		if !v.current(&c) || len(above) == 0 {
			continue
		}
		r.wait.trying, began = true, true
		m.start(model, Upgrade{Of: c, Resident: r.ID, From: from.ID, To: above})
	}
	return began
}

// upgraded takes over a replica on a better device, or notes why there is none.
func (m *Machine) upgraded(e Upgraded) {
	model, v := m.end(e.Of.Model, e.Of.Version.Number)
	var to []Replica
	if e.To != nil {
		to = m.accept(*e.To)
	}
	if v.Resident == nil { // the device that it was on is lost
		m.retire(to...)
		return
	}
	r := v.Resident
	u := &r.wait
	u.trying = false
	attrs := []any{"model", e.Of.Model, "version", v.Number}
	switch {
	case len(to) > 0:
		m.moveUp(model, v, e.From, to[0])
	case e.To != nil || !m.hasBetter(r): // those devices are lost
		*u = m.waitAgain(r, *u)
		m.touch(model, v)
	case e.Stay:
		*u = upgrade{}
		m.touch(model, v)
		m.log(Log{
			slog.LevelWarn, "upgrade not possible",
			append([]any{"event", "upgrade_impossible"}, append(attrs, "device", e.On,
				"cause", "its engine cannot have it on the preferred device")...),
		})
	case len(e.Full) > 0:
		u.full = append(u.full, e.Full...) // it matters if nothing is known about them at the next look
	case e.Err != nil:
		why := fmt.Sprintf("it is on %s for now; loading it on a device that its manifest prefers failed, and is "+
			"tried again: %v", e.On, e.Err)
		if e.Short {
			why = fmt.Sprintf("it is on %s for now, and moves when the memory budget has room for it on two devices "+
				"at once: %v", e.On, e.Err)
		} else {
			u.fail(m.now)
		}
		told := u.say(why, m.now)
		if told {
			m.touch(model, v)
		}
		if told || !e.Short {
			m.log(Log{
				slog.LevelWarn, "upgrade failed",
				append([]any{"event", "upgrade_failed"}, append(attrs, "cause", e.Err)...),
			})
		}
	}
}

// moveUp puts a replica in the place of another one of its version, which may be gone.
func (m *Machine) moveUp(model *Model, v *Version, from ReplicaID, to Replica) {
	r := v.Resident
	attrs := []any{"event", "upgrade_done", "model", model.Name, "version", v.Number, "to", to.Device.Name}
	all := slices.Clone(r.Replicas)
	if i := r.has(from); i >= 0 {
		attrs = append(attrs, "from", all[i].Device.Name)
		m.retire(all[i])
		all = slices.Delete(all, i, i+1)
	}
	all = append(all, to)
	r.Replicas = all
	slices.SortStableFunc(r.Replicas,
		func(a, b Replica) int { return cmp.Compare(r.rank(a.Device.Name), r.rank(b.Device.Name)) })
	r.short = shortage{} // there may be room for more of the better rank
	r.wait = m.waitAgain(r, r.wait)
	m.log(Log{slog.LevelInfo, "upgrade done", attrs})
	m.touch(model, v)
}

// waitAgain returns the state of waiting before the better devices were looked at; before is the state until now.
func (m *Machine) waitAgain(r *Resident, before upgrade) upgrade {
	next, above := m.better(r)
	if next == nil {
		return upgrade{}
	}
	var names []string
	for _, s := range above {
		names = append(names, s.Device)
	}
	why := WaitsAbove(next.Device.Name, before.need, nil) + " on " + strings.Join(names, " or ")
	return upgrade{why: why, need: before.need, full: before.full}
}

// WaitsAbove words that a version waits, and the reasons against the better devices.
func WaitsAbove(on string, need int64, full []catalog.FullDevice) string {
	e := catalog.PlacementError{Need: need, Devices: full}
	return fmt.Sprintf("it is on %s for now, and moves when a device that its manifest prefers has room for it; it %s",
		on, e.Shortage())
}

// Outlook is a version that waits for a better device.
type Outlook struct {
	Model    string
	Number   int64
	Resident int64
	Above    []placement.Site
	Need     int64    // bytes
	Full     []string // devices that had no room when that was known last
}

// Outlooks returns the versions for which it is time to look for room, by name and number.
func (m *Machine) Outlooks(now time.Time) (all []Outlook) {
	for _, name := range slices.Sorted(maps.Keys(m.models)) {
		model := m.models[name]
		for _, n := range slices.Sorted(maps.Keys(model.Versions)) {
			v := model.Versions[n]
			if v.Resident == nil || !v.ready() || !v.Resident.wait.waits(now) {
				continue
			}
			if from, above := m.better(v.Resident); from != nil {
				all = append(all, Outlook{name, n, v.Resident.ID, above, v.Resident.wait.need, v.Resident.wait.full})
			}
		}
	}
	return all
}

// roomSeen notes which better devices have room for a version that waits.
func (m *Machine) roomSeen(e RoomSeen) {
	model, v := m.find(e.Model, e.Number, e.Resident)
	if v == nil || !v.Resident.wait.waits(m.now) {
		return
	}
	from, _ := m.better(v.Resident)
	if from == nil {
		return
	}
	u := &v.Resident.wait
	u.due, u.full = e.Open, nil
	for _, d := range e.Full {
		u.full = append(u.full, d.Name)
	}
	if len(u.due) > 0 {
		m.visit[e.Model] = true
	} else if m.now.Sub(u.said) >= sayAgainAfter && u.say(WaitsAbove(from.Device.Name, u.need, e.Full), m.now) {
		m.touch(model, v)
	}
}
