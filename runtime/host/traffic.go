package host

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// division is how a model's traffic is divided: what was asked for, and what is published of it.
type division struct {
	stated *modelrepo.Traffic // what the manifest said last
	wanted *catalog.Traffic   // what was asked for last, with the revision that it has once it is published
	public *catalog.Traffic   // wanted, or what was wanted before while that works and wanted does not yet
	// waiting is wanted while it waits to be published, else nil; waitsFor are the versions of it that are not ready then.
	waiting  *catalog.Traffic
	waitsFor []int64
}

// news is a line for the log.
type news struct {
	message string
	attrs   []any
}

func newDivision() division {
	d := division{}
	d.want(fromManifest(nil))
	d.public = d.wanted
	return d
}

// want makes t the traffic that was asked for last, with a revision of its own.
func (d *division) want(t *catalog.Traffic) {
	if d.wanted != nil {
		t.Revision = d.wanted.Revision
	}
	t.Revision++
	d.wanted = t
}

// state takes what the manifest says. A change at run time holds until the manifest says something else.
func (d *division) state(t *modelrepo.Traffic) {
	if reflect.DeepEqual(d.stated, t) {
		return
	}
	d.stated = t
	d.want(fromManifest(t))
}

func fromManifest(t *modelrepo.Traffic) *catalog.Traffic {
	if t == nil {
		return &catalog.Traffic{Source: "default"}
	}
	c := &catalog.Traffic{Source: "model.yaml"}
	for _, s := range t.Split {
		c.Split = append(c.Split, catalog.Slot{Name: s.Slot, Version: s.Version, Weight: s.Weight})
	}
	for _, s := range t.Shadow {
		c.Shadow = append(c.Shadow, catalog.Shadow{Version: s.Version, Sample: s.Sample, PerRequest: s.Per == modelrepo.PerRequest, Tolerance: s.Tolerance, Tolerances: s.Tolerances})
	}
	return c
}

// resolve publishes what is wanted when every version of its split is ready, so that nobody is led to a version that is not there
// yet, or at once where what was published before does not answer either. What is published stays as it is when a version of it
// stops being ready: routing leads its requests elsewhere and says so. It returns what became of a wish of the manifest.
func (d *division) resolve(m *model) (all []news) {
	if d.waiting != nil && d.waiting != d.wanted {
		all = append(all, news{
			"the traffic that model.yaml asked for is dropped: other traffic took its place before its versions were ready",
			[]any{"waited_for", d.waitsFor, "replaced_by", d.wanted.Source},
		})
	}
	d.waiting = nil
	before := d.waitsFor
	d.waitsFor = nil
	switch {
	case d.public == d.wanted:
	case m.serves(d.wanted, true) || !m.serves(d.public, false):
		d.public = d.wanted
		all = append(all, news{"traffic is divided as model.yaml says", []any{"split", d.public.Split, "shadow", d.public.Shadow, "revision", d.public.Revision}})
	default:
		d.waiting, d.waitsFor = d.wanted, m.unready(d.wanted)
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
func (d *division) naming(number int64) []string {
	var names []string
	for _, t := range []*catalog.Traffic{d.wanted, d.public} {
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
// version for everything. Where expected is not 0, it must be the present revision. The revision of t is not looked at; its
// Source is "SetTraffic" if it is empty. The change holds until the next one, or until the manifest says something else than
// before. All versions that it names must be ready, but for shadows that were named before: they come back when they can, and
// must not keep anybody from moving traffic meanwhile. The error is catalog.ErrUnknown, wrapped, a *catalog.TrafficError, a
// *catalog.NotReadyError or a *catalog.RevisionError.
func (h *Host) SetTraffic(name string, t *catalog.Traffic, expected uint64) (public *catalog.Traffic, err error) {
	next := &catalog.Traffic{Source: "SetTraffic"}
	if t != nil {
		next.Split, next.Shadow = slices.Clone(t.Split), slices.Clone(t.Shadow)
		if t.Source != "" {
			next.Source = t.Source
		}
	}
	if err := next.Check(); err != nil {
		return nil, err
	}
	h.update(func() bool {
		m := h.models[name]
		if m == nil {
			err = fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
			return false
		}
		now := m.traffic.public
		// First: who did not see the last change may name what that gave up.
		if expected != 0 && expected != now.Revision {
			err = &catalog.RevisionError{Model: name, Current: now.Revision, Expected: expected}
			return false
		}
		for _, n := range newVersionsOf(next, now) {
			if err = m.mustBeReady(name, n); err != nil {
				return false
			}
		}
		m.traffic.want(next)
		m.traffic.public, public = next, next
		return true
	})
	if err == nil {
		h.settleLater(name) // a version that nothing names any more may go
	}
	return public, err
}

// mustBeReady returns a *catalog.NotReadyError unless the version takes requests.
func (m *model) mustBeReady(name string, number int64) error {
	if m.ready(number) {
		return nil
	}
	err := &catalog.NotReadyError{Model: name, Version: number}
	if e := m.versions[number]; e != nil {
		err.State = e.public.State
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
