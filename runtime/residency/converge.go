package residency

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// converge starts the next step that a model needs, unless something is running for it.
func (m *Machine) converge(model *Model) {
	if model == nil || m.closing {
		return
	}
	for model.running == 0 && m.next(model) {
	}
}

// next takes the next step towards the wanted state of a model. It reports whether there may be a further one.
func (m *Machine) next(model *Model) bool {
	m.dropOverrides(model)
	wanted := model.wanted()
	serving := model.serving(wanted)
	switch {
	case m.follow(model, serving):
	case m.unload(model, wanted): // not before the coming versions are ready, unless the transition is resource
	case m.load(model, model.due(wanted)):
	case m.upgrade(model, wanted): // before further replicas, which have the rank of the first
	case m.shrink(model, serving):
	case m.grow(model, serving):
	default:
		return false
	}
	return true
}

// serving returns those of the wanted versions that serve as they are to be, except for settings and replicas.
func (m *Model) serving(wanted []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(wanted), func(c Candidate) bool {
		v := m.Versions[c.Version.Number]
		return v == nil || !v.current(&c)
	})
}

// due returns those of the wanted versions that are to be loaded now.
func (m *Model) due(wanted []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(wanted), func(c Candidate) bool {
		v := m.Versions[c.Version.Number]
		switch {
		case v == nil:
			return false
		case v.State == Draining, v.current(&c):
			return true
		case v.failure == nil:
			return false
		}
		return !v.failure.due && v.failure.of.alike(&c)
	})
}

// follow makes versions follow changed settings, and forgets failures that do not matter any more.
func (m *Machine) follow(model *Model, serving []Candidate) (began bool) {
	for _, c := range serving {
		v := model.Versions[c.Version.Number]
		switch {
		case !sameSettings(v.Resident.Settings, c.Manifest):
			m.start(model, Reconfigure{c, v.Resident.ID})
			began = true
		case v.failure != nil:
			v.failure, v.Cause, began = nil, nil, true
			m.touch(model, v)
		}
	}
	return began
}

// load begins to load versions, side by side.
func (m *Machine) load(model *Model, due []Candidate) bool {
	for _, c := range due {
		v := model.Versions[c.Version.Number]
		if v == nil {
			v = &Version{Number: c.Version.Number, State: Loading}
			model.Versions[c.Version.Number] = v
		}
		m.loads++
		// A lost device, a restart, or a file that was only touched is no reason to trust the rows again.
		e := Load{Of: c, Resident: m.loads, Replicas: 1, Unbatched: model.unbatched(&c)}
		if r := v.Resident; r != nil {
			e.Replaces, e.Replicas = r.ID, max(1, min(len(r.Replicas), wantsUnder(r, &c)))
			v.State = Replacing
		} else {
			v.State, v.Of, v.Cause = Loading, c, nil
		}
		v.kept = ""
		if v.failure != nil {
			v.failure.again = time.Time{}
		}
		m.touch(model, v)
		m.start(model, e)
	}
	return len(due) > 0
}

// wantsUnder returns how many replicas a version is to have that takes the place of r.
func wantsUnder(r *Resident, c *Candidate) int {
	next := Resident{Settings: c.Manifest, auto: r.auto}
	return next.wants()
}

// loaded takes over a version that was loaded, in the place of the one that serves under its number, if any.
func (m *Machine) loaded(e Loaded) {
	model, v := m.end(e.Of.Model, e.Of.Version.Number)
	working := m.accept(e.Replicas...)
	if e.Err == nil && len(working) == 0 { // it is to be loaded elsewhere next
		v.State = restingState(v)
		m.touch(model, v)
		return
	}
	if e.Err != nil {
		m.failed(model, v, e)
		return
	}
	before := v.Resident
	c := e.Of
	r := &Resident{
		ID: e.Load.Resident, Of: c, Settings: c.Manifest, Proven: c.Manifest, Replicas: working, Since: m.now,
		sites: e.Sites, auto: 1,
	}
	if before != nil {
		r.auto = before.auto
	}
	if e.Wait != nil {
		r.wait = newUpgrade(e.Wait, m.now)
	}
	v.State, v.Of, v.Cause, v.Resident, v.latest, v.failure = Ready, c, nil, r, r.ID, nil
	if before != nil {
		m.log(Log{
			slog.LevelInfo, "version replaced",
			[]any{"event", "version_replaced", "model", c.Model, "version", v.Number, "path", c.Path()},
		})
		m.retire(before.Replicas...)
	}
	m.touch(model, v)
}

// restingState is the state of a version for which nothing is running.
func restingState(v *Version) State {
	if v.Resident != nil {
		return Ready
	}
	return Loading
}

// reconfigured takes over how a version follows its changed manifest.
func (m *Machine) reconfigured(e Reconfigured) {
	model, v := m.end(e.Of.Model, e.Of.Version.Number)
	moved := slices.Collect(maps.Values(e.Moved))
	if e.Interrupted || v.Resident == nil {
		m.retire(moved...)
		return
	}
	r := v.Resident
	if e.Reload {
		r.reload = e.Of.Manifest
		return
	}
	for i, old := range r.Replicas {
		if next, is := e.Moved[old.ID]; is {
			r.Replicas[i] = next
			delete(e.Moved, old.ID)
			m.retire(old)
		}
	}
	m.retire(slices.Collect(maps.Values(e.Moved))...)
	r.Settings, r.short = e.Of.Manifest, shortage{}
	if e.Proven {
		r.Proven = e.Of.Manifest
	}
	switch {
	case e.Err != nil:
		hidden := e.Of.Hide(e.Err)
		hidden.Text = "model.yaml changed, but its settings cannot be followed: " + hidden.Text
		v.Cause = hidden
		m.log(Log{
			slog.LevelError, "changed manifest not followed",
			[]any{"event", "version_reconfigure_failed", "model", e.Of.Model, "version", v.Number, "cause", e.Err},
		})
	case v.failure == nil:
		v.Cause = nil
	}
	m.touch(model, v)
}
