package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// division is what is published of a model's traffic. What was asked for last, the wanted traffic, is model.decided.Traffic.
type division struct {
	public *catalog.Traffic // what is wanted, or what was wanted before while that works and this does not yet
	// waiting is what is wanted while it waits to be published, else nil; waitsFor are the versions of it that are not ready then.
	waiting  *catalog.Traffic
	waitsFor []int64
	deciding bool // somebody is dividing anew what is published: it stays as he saw it until he has
}

// news is a line for the log.
type news struct {
	message string
	attrs   []any
}

// says returns what a manifest says of what can be decided at run time.
func says(m *modelrepo.Manifest) decisions.Manifest {
	said := decisions.Manifest{Labels: m.Versions.Labels}
	switch p := m.Versions.Policy; {
	case p.All:
		said.Policy = "all"
	case p.Specific != nil:
		said.Policy = fmt.Sprint("specific ", p.Specific)
	default:
		said.Policy = fmt.Sprint("latest ", p.Latest)
	}
	if t := m.Traffic; t != nil {
		said.Traffic = &catalog.Traffic{Source: "model.yaml"}
		for _, s := range t.Split {
			said.Traffic.Split = append(said.Traffic.Split, catalog.Slot{Name: s.Slot, Version: s.Version, Weight: s.Weight})
		}
		for _, s := range t.Shadow {
			said.Traffic.Shadow = append(said.Traffic.Shadow, catalog.Shadow{
				Version: s.Version, Sample: s.Sample, PerRequest: s.Per == modelrepo.PerRequest, Tolerance: s.Tolerance, Tolerances: s.Tolerances,
			})
		}
	}
	return said
}

// resolve publishes what is wanted when every version of its split is ready, so that nobody is led to a version that is not there
// yet, or at once where what was published before does not answer either. What is published stays as it is when a version of it
// stops being ready: routing leads its requests elsewhere and says so. It returns what became of a wish of the manifest.
func (d *division) resolve(m *model) (all []news) {
	wanted := m.decided.Traffic
	if d.deciding {
		return nil
	}
	if d.waiting != nil && d.waiting != wanted {
		all = append(all, news{
			"the traffic that model.yaml asked for is dropped: other traffic took its place before its versions were ready",
			[]any{"waited_for", d.waitsFor, "replaced_by", wanted.Source},
		})
	}
	d.waiting = nil
	before := d.waitsFor
	d.waitsFor = nil
	switch {
	case d.public == wanted:
	case m.serves(wanted, true) || !m.serves(d.public, false):
		d.public = wanted
		all = append(all, news{"traffic is divided as model.yaml says", []any{"split", d.public.Split, "shadow", d.public.Shadow, "revision", d.public.Revision}})
	default:
		d.waiting, d.waitsFor = wanted, m.unready(wanted)
		if !slices.Equal(before, d.waitsFor) {
			all = append(all, news{"the traffic that model.yaml asks for waits for versions to become ready", []any{"waits_for", d.waitsFor}})
		}
	}
	return all
}

// unready returns the versions that a traffic leads to and that are not ready, ascending.
func (m *model) unready(t *catalog.Traffic) (numbers []int64) {
	for _, s := range t.Split {
		if !m.ready(s.Version) {
			numbers = append(numbers, s.Version)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// serves reports whether a traffic leads to a version that is ready or, if all is set, to none that is not.
func (m *model) serves(t *catalog.Traffic, all bool) bool {
	if len(t.Split) == 0 { // the newest answers, whichever is ready
		return all || slices.ContainsFunc(slices.Collect(maps.Keys(m.versions)), m.ready)
	}
	for _, s := range t.Split {
		switch ready := m.ready(s.Version); {
		case all && !ready:
			return false
		case !all && ready: // also without weight, as the last resort
			return true
		}
	}
	return all
}

// naming returns what of the traffic, wanted or published, names the version.
func (d *division) naming(wanted *catalog.Traffic, number int64) []string {
	var names []string
	for _, t := range []*catalog.Traffic{wanted, d.public} {
		for _, s := range t.Split {
			if s.Version == number {
				names = append(names, fmt.Sprintf("slot %q of the traffic", s.Name))
			}
		}
		for _, s := range t.Shadow {
			if s.Version == number {
				names = append(names, "a shadow of the traffic")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SetTraffic divides a model's traffic anew, at once and as a whole, and returns what is published. Nil is the newest ready
// version for everything. Otherwise it is as Decide.
func (h *Host) SetTraffic(name string, t *catalog.Traffic, expected uint64) (public *catalog.Traffic, err error) {
	if t == nil {
		t = &catalog.Traffic{}
	}
	return h.Decide(name, catalog.Decision{Traffic: t, Expected: expected})
}

// Decide makes a decision about a model, and returns the traffic that is published then. The traffic's Source is "SetTraffic" if it is
// empty. It holds until the next one, or until the manifest says something else than before, and it outlives the process where there
// is a Config.Keeper. All versions that it names must be ready, but for shadows that were named before: they come back when they can, and
// must not keep anybody from moving traffic meanwhile. The error is catalog.ErrUnknown, wrapped, a *catalog.TrafficError, a
// *catalog.NotReadyError, a *catalog.RevisionError or a *catalog.KeepError. A model that is not there may still be told of its rollout.
func (h *Host) Decide(name string, d catalog.Decision) (public *catalog.Traffic, err error) {
	now := time.Now().UTC()
	var next *catalog.Traffic
	if t := d.Traffic; t != nil {
		next = &catalog.Traffic{Source: cmp.Or(t.Source, "SetTraffic"), Split: slices.Clone(t.Split), Shadow: slices.Clone(t.Shadow), By: t.By, At: now}
		if err := next.Check(); err != nil {
			return nil, err
		}
	}
	plan := func(m *model) (after decisions.Model, err error) {
		after = m.decided
		if next != nil {
			if err := m.mayDivide(name, next, d.Expected); err != nil {
				return after, err
			}
			after = after.Divide(next)
		}
		if r := d.RollBack; r != nil {
			after = after.RollBack(catalog.RolledBack{Version: r.Version, At: now, By: r.By, Why: r.Why})
		}
		if d.Rollout != nil {
			after.Rollout = d.Rollout
			if next != nil {
				after.RolloutRevision = next.Revision
			}
		}
		return after, nil
	}
	if err := h.decide(name, next == nil, plan); err != nil {
		return nil, err
	}
	h.settleLater(name) // a version that nothing names any more may go
	return next, nil
}

// mayDivide returns why the traffic may not be divided so.
func (m *model) mayDivide(name string, next *catalog.Traffic, expected uint64) error {
	now := m.traffic.public
	// First: who did not see the last change may name what that gave up.
	if expected != 0 && expected != now.Revision {
		return &catalog.RevisionError{Model: name, Current: now.Revision, Expected: expected}
	}
	for _, n := range newVersionsOf(next, now) {
		if err := m.mustBeReady(name, n); err != nil {
			return err
		}
	}
	return nil
}

// mustBeReady returns a *catalog.NotReadyError unless the version takes requests.
func (m *model) mustBeReady(name string, number int64) error {
	if m.ready(number) {
		return nil
	}
	err := &catalog.NotReadyError{Model: name, Version: number}
	err.Cause = m.cause
	if e := m.versions[number]; e != nil {
		err.State, err.Cause = e.public.State, e.public.Cause
	}
	return err
}

// newVersionsOf returns the versions that a traffic leads to, and those that it has in the shadow and before had not.
func newVersionsOf(t, before *catalog.Traffic) []int64 {
	var all []int64
	for _, s := range t.Split {
		all = append(all, s.Version)
	}
	for _, s := range t.Shadow {
		if !slices.ContainsFunc(before.Shadow, func(b catalog.Shadow) bool { return b.Version == s.Version }) {
			all = append(all, s.Version)
		}
	}
	return all
}
